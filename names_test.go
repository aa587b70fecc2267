package soloist

import (
	"slices"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// kinds are how records are named, by the namespace and what people call the thing. Of the two parts of an element, and of a permit, the
// kinds of one part use the first.
var kinds = map[string]func(n namer, a, b string) (string, error){
	"lock":           func(n namer, a, _ string) (string, error) { return n.name(kindLock, a) },
	"job":            func(n namer, a, _ string) (string, error) { return n.name(kindJob, a) },
	"control":        func(n namer, a, _ string) (string, error) { return n.name(kindControl, a) },
	"leader":         func(n namer, a, _ string) (string, error) { return n.name(kindLeader, a) },
	"element":        func(n namer, a, b string) (string, error) { return n.name(partsOf(kindElement, a), b) },
	"permit":         func(n namer, a, b string) (string, error) { return n.name(partsOf(kindSemaphore, a), b) },
	"group":          func(n namer, a, _ string) (string, error) { return n.prefix + kindGroup + a, store.CheckName(a) },
	"all":            func(n namer, _, _ string) (string, error) { return n.prefix + nameControls, nil },
	"control of all": func(n namer, _, _ string) (string, error) { return n.prefix + nameControlOfAll, nil },
}

// same reports whether two names of a kind are those of one thing: of some kinds only the first part counts, or neither.
func same(kind, a1, b1, a2, b2 string) bool {
	switch kind {
	case "all", "control of all":
		return true
	case "element", "permit":
		return a1 == a2 && b1 == b2
	}
	return a1 == a2
}

// Two different things never share a record, whatever their namespaces, kinds and names.
func FuzzRecordNames(f *testing.F) {
	f.Add("", "lock", "leader/eu", "lock", "leader", "eu")
	f.Add("", "lock", "@lock/leader/eu", "lock", "leader", "eu")
	f.Add("", "element", "a/b", "", "element", "a")
	f.Add("", "lock", "", "lock", "all", "controls")
	f.Add("a", "element", "b%2Fc", "a", "element", "b/c")
	f.Add("@a", "lock", "b", "a", "lock", "b")
	f.Fuzz(func(t *testing.T, ns1, kind1, name1, ns2, kind2, name2 string) {
		for _, parts := range [][2]string{{name1, name2}, {"x", "x"}, {name2, name1}} {
			n1, err1 := newNamer(ns1)
			n2, err2 := newNamer(ns2)
			record1, record2 := kinds[kind1], kinds[kind2]
			if err1 != nil || err2 != nil || record1 == nil || record2 == nil {
				t.Skip()
			}
			one, err1 := record1(n1, name1, parts[0])
			two, err2 := record2(n2, name2, parts[1])
			if err1 != nil || err2 != nil {
				continue
			}
			if is := ns1 == ns2 && kind1 == kind2 && same(kind1, name1, parts[0], name2, parts[1]); is != (one == two) {
				t.Errorf("%q %s %q %q and %q %s %q %q: records %q and %q", ns1, kind1, name1, parts[0], ns2, kind2, name2, parts[1], one, two)
			}
		}
	})
}

// No kind begins as a namespace does, nor as another kind.
func TestKindsAreApart(t *testing.T) {
	all := []string{kindLock, kindJob, kindControl, kindElement, kindSemaphore, kindLeader, kindGroup, nameControls + "/"}
	slices.Sort(all)
	for i, kind := range all {
		if kind[0] == '@' || i > 0 && kind == all[i-1] || kind[len(kind)-1] != '/' {
			t.Errorf("%q", kind)
		}
	}
}

// A name that is too long says so, also if it is the name of a semaphore or a job, of which there is no room for a permit or an element.
func TestNamesThatAreTooLong(t *testing.T) {
	n, err := newNamer("here")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", store.MaxName)
	for want, is := range map[string]func() (string, error){
		`name "` + long[:60] + `": has 255 bytes; here at most 244 fit`:                                       func() (string, error) { return n.name(kindLock, long) },
		`name "semaphore/` + long[:50] + `": has 267 bytes, both names together; here at most 249 fit`:        func() (string, error) { return n.name(partsOf(kindSemaphore, long), "0") },
		`name "element/invoices/` + long[:43] + `": has 272 bytes, both names together; here at most 249 fit`: func() (string, error) { return n.name(partsOf(kindElement, "invoices"), long) },
	} {
		if name, err := is(); err == nil || err.Error() != want {
			t.Errorf("%q, %v; want %s", name, err, want)
		}
	}
}

// A replica is called by all of its name, whatever is in it.
func TestReplicaInAHolder(t *testing.T) {
	for holder, want := range map[string]string{"a#x-1": "a", "a#b#x-1": "a#b", "a#b#x-1/7": "a#b", "a/3#x-1": "a/3", "a": "a", "": ""} {
		if got := replicaOf(holder); got != want {
			t.Errorf("%q: %q", holder, got)
		}
	}
	for holder, want := range map[string]int{"a#x-1/7": 7, "a/3#b#x-1/7": 7, "a/3#x-1": 0, "a#x-1": 0} {
		if got := limitOf(holder); got != want {
			t.Errorf("%q: limit %d", holder, got)
		}
	}
}

// A namespace has up to 64 bytes, and no slash.
func TestNamespaces(t *testing.T) {
	for namespace, fits := range map[string]bool{"": true, "x": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "a/b": false, "a\n": false} {
		if n, err := newNamer(namespace); (err == nil) != fits {
			t.Errorf("namespace %q: %+v, %v", namespace, n, err)
		}
	}
}
