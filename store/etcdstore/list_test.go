package etcdstore_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
	if n, err := s.Sweep(background, 150); n != 150 || err != nil {
		t.Errorf("a sweep forgot %d, %v, want 150", n, err)
	}
}
