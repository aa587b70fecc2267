package etcdstore_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// TestLongList: 100,000 names are listed once each, in order, page by page.
func TestLongList(t *testing.T) {
	const names, each = 100_000, 120
	server := shared(t)
	below := prefix()
	s := server.open(t, below)
	if _, err := acquire(background, s, "name/050000", time.Hour); err != nil {
		t.Fatal(err)
	}
	var ops []clientv3.Op
	for i := range names {
		if i != 50_000 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%sn/name/%06d\trecord", below, i), `{"v":2,"holder":"x","ttl_ns":0,"granted":1,"released":true,"forget":1}`))
		}
		if len(ops) == each || i == names-1 {
			if _, err := server.client.Txn(background).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	n := 0
	for r, err := range s.List(background, "name/") {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("name/%06d", n); r.Name != want || r.Free() == (n == 50_000) {
			t.Fatalf("record %d is %+v, want %s, taken only if it is the 50,000th", n, r, want)
		}
		n++
	}
	if n != names {
		t.Errorf("%d records, want %d", n, names)
	}
	for range 2 { // each ends in the middle of a page
		if n, err := s.Sweep(background, 150); n != 150 || err != nil {
			t.Errorf("a sweep forgot %d, %v, want 150", n, err)
		}
	}
	for r, err := range s.List(background, "name/") {
		if err != nil || r.Name != "name/000300" {
			t.Errorf("%q, %v, is left after two sweeps, want all that come before the 300th forgotten", r.Name, err)
		}
		break
	}
}

// TestSweepLeavesWhatLingers: a name that lingers is not forgotten, whatever the wall clock of the process that sweeps says.
func TestSweepLeavesWhatLingers(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	grant, err := acquire(background, s, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token, Linger: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	key := below + "n/a\trecord"
	reply, err := server.client.Get(background, key)
	if err != nil {
		t.Fatal(err)
	}
	past := regexp.MustCompile(`"forget":\d+`).ReplaceAllString(string(reply.Kvs[0].Value), `"forget":1`) // as for a clock that is set forward
	if _, err := server.client.Put(background, key, past); err != nil || past == string(reply.Kvs[0].Value) {
		t.Fatal(past, err)
	}
	if n, err := s.Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d records forgotten, %v", n, err)
	}
	if _, err := acquire(background, s, "a", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Errorf("got %v while the name lingers", err)
	}
}

// TestForeignKeysInAList: keys that something else has written below the prefix, and that are no record of a name, are
// no names: neither a list nor a sweep has anything of them.
func TestForeignKeysInAList(t *testing.T) {
	server, below := shared(t), prefix()
	s := server.open(t, below)
	if _, err := acquire(background, s, "m", time.Hour); err != nil {
		t.Fatal(err)
	}
	const old = `{"v":2,"holder":"x","ttl_ns":0,"granted":1,"released":true,"forget":1}`
	foreign := []string{"a", "\trecord", "b\x01c\trecord", "d\trecords", "e\t", "f\trecord\t", "z\twaiting"}
	for _, key := range foreign {
		server.put(t, below+"n/"+key, old)
	}
	server.put(t, below+"n/n\trecord", old)
	var names []string
	for r, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"m", "n"}) {
		t.Errorf("a list has %q, want m and n", names)
	}
	if n, err := s.Sweep(background, 100); n != 1 || err != nil {
		t.Errorf("a sweep forgot %d, %v, want n only", n, err)
	}
	for _, key := range foreign {
		if reply, err := server.client.Get(background, below+"n/"+key); err != nil || reply.Count != 1 {
			t.Errorf("the key %q was deleted, %v", key, err)
		}
	}
}

// TestSweepGoesOn: one sweep looks at a thousand records, and the next goes on behind them; when it has come to the
// end, the next begins anew.
func TestSweepGoesOn(t *testing.T) {
	const names, each, looks = 1300, 100, 1000
	server, below := shared(t), prefix()
	s := server.open(t, below)
	put := func(i int, forget string) clientv3.Op {
		return clientv3.OpPut(fmt.Sprintf("%sn/%06d\trecord", below, i),
			`{"v":2,"holder":"x","ttl_ns":0,"granted":1,"released":true`+forget+`}`)
	}
	const forget = `,"forget":1`
	for from := 0; from < names; from += each {
		var ops []clientv3.Op
		for i := from; i < from+each; i++ {
			ops = append(ops, put(i, ""))
		}
		if _, err := server.client.Txn(background).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.client.Txn(background).Then(put(0, forget), put(looks-1, forget), put(looks, forget),
		put(names-1, forget)).Commit(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 2, 0, 0} {
		if n, err := s.Sweep(background, names); n != want || err != nil {
			t.Errorf("sweep %d forgot %d, %v, want %d", i+1, n, err, want)
		}
	}
	if _, err := server.client.Txn(background).Then(put(0, forget), put(names-1, forget)).Commit(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 1} {
		if n, err := s.Sweep(background, names); n != want || err != nil {
			t.Errorf("after that, sweep %d forgot %d, %v, want %d", i+1, n, err, want)
		}
	}
}
