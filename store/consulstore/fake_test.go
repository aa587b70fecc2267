package consulstore_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A fake is the part of Consul that a store uses, without a token and without clocks. A test can put its own replies in the place of what it would reply.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	index   uint64
	entries map[string]*entry
	changed chan struct{} // closed with the next change
	hook    func(w http.ResponseWriter, r *http.Request, carryOut func()) bool
}

// An entry is a key as Consul shows it.
type entry struct {
	Key         string
	Value       []byte
	ModifyIndex uint64
	Session     string `json:",omitempty"`
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{index: 10, entries: map[string]*entry{}, changed: make(chan struct{})}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

func (f *fake) addr() string { return strings.TrimPrefix(f.URL, "http://") }

// meets has each request pass a function first, which reports whether it has replied. carryOut carries the request out, without a reply.
func (f *fake) meets(hook func(w http.ResponseWriter, r *http.Request, carryOut func()) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil && hook(w, r, func() { f.serve(httptest.NewRecorder(), r) }) {
		return
	}
	f.serve(w, r)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/txn":
		f.transact(w, r)
	case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
		f.get(w, r, strings.TrimPrefix(r.URL.Path, "/v1/kv/"))
	case r.URL.Path == "/v1/status/peers":
		_, _ = io.WriteString(w, `["127.0.0.1:1"]`)
	default:
		http.Error(w, "Permission denied", http.StatusForbidden)
	}
}

func (f *fake) transact(w http.ResponseWriter, r *http.Request) {
	var operations []struct {
		KV struct {
			Verb, Key string
			Value     []byte
			Index     uint64
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&operations); err != nil || len(operations) > 128 {
		http.Error(w, "bad transaction", http.StatusBadRequest)
		return
	}
	type result struct{ KV *entry }
	type failure struct {
		OpIndex int
		What    string
	}
	var reply struct {
		Results []result
		Errors  []failure
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next, writes := map[string]*entry{}, false
	for i, o := range operations {
		now := f.entries[o.KV.Key]
		stale := o.KV.Index == 0 && now != nil || o.KV.Index != 0 && (now == nil || now.ModifyIndex != o.KV.Index)
		switch o.KV.Verb {
		case "get-or-empty":
			if now == nil {
				now = &entry{Key: o.KV.Key}
			}
			reply.Results = append(reply.Results, result{now})
		case "cas", "delete-cas":
			writes = true
			switch {
			case o.KV.Verb == "delete-cas" && now == nil:
			case stale:
				reply.Errors = append(reply.Errors, failure{i, fmt.Sprintf("failed to set key %q, index is stale", o.KV.Key)})
			case o.KV.Verb == "cas":
				next[o.KV.Key] = &entry{Key: o.KV.Key, Value: o.KV.Value, ModifyIndex: f.index + 1}
				reply.Results = append(reply.Results, result{&entry{Key: o.KV.Key, ModifyIndex: f.index + 1}})
			default:
				next[o.KV.Key] = nil
			}
		}
	}
	if writes {
		f.index++
	}
	status := http.StatusOK
	if len(reply.Errors) > 0 {
		reply.Results, status = nil, http.StatusConflict
	} else if writes {
		for key, e := range next {
			if f.entries[key] = e; e == nil {
				delete(f.entries, key)
			}
		}
		close(f.changed)
		f.changed = make(chan struct{})
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply)
}

// get replies with a key, after it has changed if an index is given, or with the keys that begin like it.
func (f *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	known, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	for {
		f.mu.Lock()
		changed, index := f.changed, f.index
		var found []*entry
		var keys []string
		for k, e := range f.entries {
			if strings.HasPrefix(k, key) {
				keys = append(keys, k)
			}
			if k == key {
				found, index = append(found, e), e.ModifyIndex
			}
		}
		f.mu.Unlock()
		if index <= known {
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
			continue
		}
		w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
		_, list := r.URL.Query()["keys"]
		switch {
		case list && len(keys) > 0:
			_ = json.NewEncoder(w).Encode(keys)
		case !list && len(found) > 0:
			_ = json.NewEncoder(w).Encode(found)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
}
