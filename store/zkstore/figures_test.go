package zkstore_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestManyNames: what 10,000 leases cost for one period, and that as many names can be listed and forgotten.
func TestManyNames(t *testing.T) {
	servers.Long(t)
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	const n = 10_000
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("elements/%06d", i), Holder: "x", TTL: time.Hour}
	}
	outcomes, err := a.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	extensions, releases := make([]store.Extension, n), make([]store.Release, n)
	for i, c := range claims {
		if outcomes[i].Err != nil {
			t.Fatal(outcomes[i].Err)
		}
		extensions[i] = store.Extension{Name: c.Name, Holder: "x", Token: outcomes[i].Grant.Token, TTL: time.Hour}
		releases[i] = store.Release{Name: c.Name, Holder: "x", Token: outcomes[i].Grant.Token}
	}
	before := s.received(t)
	errs, err := a.Extend(background, extensions)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if cost := s.received(t) - before; cost > n/500+5 { // asking counts, too, and so does a ping
		t.Errorf("extending %d leases cost %d requests, want %d", n, cost, n/500)
	}
	listed := 0
	for _, err := range a.List(background, "elements/") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != n {
		t.Errorf("listed %d names, want %d", listed, n)
	}
	if errs, err = a.Release(background, releases); errors.Join(append(errs, err)...) != nil {
		t.Fatal(errors.Join(append(errs, err)...))
	}
	forgotten := 0
	servers.Wait(t, "all to be forgotten", func() bool {
		k, err := a.Sweep(background, n)
		if err != nil {
			t.Fatal(err)
		}
		forgotten += k
		return forgotten == n
	})
}

// TestSweepPassesNothingBy: one sweep forgets the names of all buckets, in whatever order ZooKeeper lists these, and whatever the names are.
func TestSweepPassesNothingBy(t *testing.T) {
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	const n = 350
	claims, releases := make([]store.Claim, n), make([]store.Release, n)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint([]string{"name ", "na/me/"}[i%2], i), Holder: "x", TTL: time.Hour}
	}
	outcomes, err := a.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		releases[i] = store.Release{Name: c.Name, Holder: "x", Token: outcomes[i].Grant.Token}
	}
	errs, err := a.Release(background, releases)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if forgotten, err := a.Sweep(background, 1000); forgotten != n || err != nil {
		t.Errorf("%d of %d names forgotten, %v", forgotten, n, err)
	}
}

// received returns how many packets of clients the server has received.
func (s *server) received(t testing.TB) int {
	t.Helper()
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	return status.Received
}

// TestRequests counts, at the server, what the verbs cost. It has a server to itself.
func TestRequests(t *testing.T) {
	alone := servers.ZooKeeper(t, 1)[0]
	s := &server{ZooKeeperServer: alone, conn: newConn(t, alone.Addr)}
	path := fresh()
	a, b := on(t, s.conn, path), on(t, s.conn, path)
	expect := func(what string, want int, do func() error) {
		t.Helper()
		before := s.received(t)
		err := do()
		got := s.received(t) - before - 1 // asking counts, too
		if err != nil || got != want {
			t.Errorf("%s cost %d requests, want %d: %v", what, got, want, err)
		}
	}
	if _, err := claim(background, a, "first", "x", time.Hour); err != nil { // makes the nodes above
		t.Fatal(err)
	}
	if _, err := s.conn.Create(bucketOf(path, "name"), nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	var grant store.Grant
	acquire := func(of *zkstore.Store) func() error {
		return func() (err error) { grant, err = claim(background, of, "name", "x", time.Hour); return err }
	}
	refuse := func() error {
		if _, err := claim(background, b, "name", "y", time.Hour); !errors.Is(err, store.ErrHeld) {
			return fmt.Errorf("got %w, want that it is held", err)
		}
		return nil
	}
	expect("acquiring a new name", 3, acquire(a))
	expect("a first refused claim", 2, refuse)
	last := s.lastWrite(t, path)
	expect("a refused claim", 2, refuse)
	if s.lastWrite(t, path) != last {
		t.Error("a refused claim has written")
	}
	expect("an extension", 1, func() error { return extend(background, a, "name", grant.Token, time.Hour) })
	expect("a release", 1, func() error { return release(background, a, "name", grant.Token) })
	expect("acquiring it again", 1, acquire(a))
}

// bucketOf returns the path of the bucket of a name.
func bucketOf(path, name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("%s/%02x", path, byte(h.Sum32()))
}

// TestCrowd counts, at the server, what a change of the owner costs while sixteen processes wait for a name. It cost 58 requests when each release had all of them claim.
func TestCrowd(t *testing.T) {
	servers.Long(t)
	s := &server{ZooKeeperServer: servers.ZooKeeper(t, 1)[0]}
	path := fresh()
	var stores []store.Store
	for range 16 {
		stores = append(stores, openURL(t, s.Addr, path))
	}
	servers.Crowd(t, stores, 200) // they learn how many they are
	servers.CrowdCosts(t, stores, 300, 30, func() float64 { return float64(s.received(t)) })
}

// TestSteppedBack: a process that has lost its races with a crowd looks at the name again although nobody claims it.
func TestSteppedBack(t *testing.T) {
	s, path := shared(t), fresh()
	loser := openURL(t, s.Addr, path)
	var crowd []*zkstore.Store
	for range 8 {
		crowd = append(crowd, on(t, s.conn, path))
	}
	g, err := claim(background, crowd[0], "name", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := loser.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * len(crowd) {
		if err := release(background, crowd[i%len(crowd)], "name", g.Token); err != nil {
			t.Fatal(err)
		}
		woken(t, wake)
		if g, err = claim(background, crowd[(i+1)%len(crowd)], "name", "x", time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := claim(background, loser, "name", "l", time.Hour); !errors.Is(err, store.ErrHeld) {
			t.Fatalf("got %v, want that it is held", err)
		}
	}
	if err := release(background, crowd[0], "name", g.Token); err != nil {
		t.Fatal(err)
	}
	woken(t, wake) // nobody claims it but the loser
	if _, err := claim(background, loser, "name", "l", time.Hour); err != nil {
		t.Error(err)
	}
}

// woken waits for a value of a watch.
func woken(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-wake:
		if !ok {
			t.Fatal("the watch has ended")
		}
	case <-time.After(servers.Patience):
		t.Fatal("nobody was woken")
	}
}
