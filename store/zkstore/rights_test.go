package zkstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
)

// TestRights: a user with the rights of the documentation can do all that a store does, and errors name what is missing.
func TestRights(t *testing.T) {
	s, path := shared(t), fresh()
	const rights = zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete
	acl := append(zk.DigestACL(rights, "soloist", "pa/ss@word"), zk.DigestACL(zk.PermAll, "root", "root")...)
	if _, err := s.conn.Create("/test", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	if _, err := s.conn.Create(path, nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	a, b := openURL(t, "soloist:pa%2Fss%40word@"+s.Addr, path), openURL(t, "soloist:pa%2Fss%40word@"+s.Addr, path)
	grant, err := claim(background, a, "a", "x", time.Hour)
	do("acquiring", err)
	woken, err := b.Watch(background, []string{"a"})
	do("watching", err)
	do("extending", extend(background, a, "a", grant.Token, time.Hour))
	do("extending by another process", extend(background, b, "a", grant.Token, time.Hour))
	errs, err := a.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token}})
	do("releasing", errors.Join(append(errs, err)...))
	<-woken
	for _, err := range a.List(background, "") {
		do("listing", err)
	}
	_, err = a.Sweep(background, 10)
	do("sweeping", err)
	findings, err := a.Examine(background)
	do("examining", err)
	for _, f := range findings {
		if f.Level == store.LevelError || f.Subject == "others" && f.Level != store.LevelOK || f.Subject == "rights" && f.Level != store.LevelOK {
			t.Errorf("%+v", f)
		}
	}

	for _, user := range []string{"", "stranger:x@", "soloist:wrong@"} {
		other := openURL(t, user+s.Addr, path)
		for _, name := range []string{"a", "new"} {
			if _, err := claim(background, other, name, "y", time.Hour); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || !says(err, "ACL") {
				t.Errorf("%q: a claim of %s: %v, want that it is not allowed", user, name, err)
			}
		}
		findings, err := other.Examine(background)
		if err != nil || findings[len(findings)-1].Level != store.LevelError {
			t.Errorf("%q: %+v, %v, want an error of rights", user, findings, err)
		}
	}
}

// TestNewStoreHasItsACL: the nodes that the first write of a store makes, the parents of its path among them, are for its user alone.
func TestNewStoreHasItsACL(t *testing.T) {
	s, path := shared(t), fresh()+"/below"
	if _, err := claim(background, openURL(t, "soloist:secret@"+s.Addr, path), "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{path, bucketOf(path, "a")} {
		if acl, _, err := s.conn.GetACL(node); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%s: another user is told its ACL: %+v, %v", node, acl, err)
		}
	}
}

// TestNoUserForTheACL: an ACL for the user of a connection that has none is refused, with nothing written.
func TestNoUserForTheACL(t *testing.T) {
	s := shared(t)
	a, err := zkstore.New(s.conn, zkstore.Config{Path: fresh(), ACL: zk.AuthACL(zk.PermAll)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := claim(background, a, "a", "x", time.Hour); !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || !says(err, "needs a user") {
		t.Errorf("got %v, want that the connection needs a user", err)
	}
}

// TestOpenToAll: doctor reports that everybody may write.
func TestOpenToAll(t *testing.T) {
	a := on(t, shared(t).conn, fresh())
	look := func(subject string) store.Finding {
		findings, err := a.Examine(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Subject == subject {
				return f
			}
		}
		return store.Finding{}
	}
	if f := look("rights"); f.Level != store.LevelUnknown {
		t.Errorf("before the first write: %+v, want that the rights are not known", f)
	}
	if _, err := claim(background, a, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	if f := look("others"); f.Level != store.LevelWarning {
		t.Errorf("got %+v, want a warning", f)
	}
}

// TestOneNodeWithoutRights: a node that the user may not change affects its own name only, in batches too, of three and of two.
func TestOneNodeWithoutRights(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"a", "b"}} {
		s, path := shared(t), fresh()
		a := on(t, s.conn, path)
		var claims []store.Claim
		for _, name := range names {
			claims = append(claims, store.Claim{Name: name, Holder: "x", TTL: time.Hour})
		}
		outcomes, err := a.Acquire(background, claims)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.conn.SetACL(s.node(t, path, "b"), zk.DigestACL(zk.PermAll, "other", "x"), -1); err != nil {
			t.Fatal(err)
		}
		var extensions []store.Extension
		for i, c := range claims {
			extensions = append(extensions, store.Extension{Name: c.Name, Holder: "x", Token: outcomes[i].Grant.Token, TTL: time.Hour})
		}
		check := func(what string, errs []error, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range errs {
				if denied := errors.Is(err, fs.ErrPermission) && !errors.Is(err, store.ErrUnknown); denied != (i == 1) || !denied && err != nil {
					t.Errorf("%s of %s of %q: %v", what, claims[i].Name, names, err)
				}
			}
		}
		errs, err := a.Extend(background, extensions) // it knows the nodes, and writes
		check("an extension", errs, err)
		errs, err = on(t, s.conn, path).Extend(background, extensions) // it reads them first
		check("an extension by another process", errs, err)
	}
}

// TestBucketThatCannotBeMade: a bucket that the user may not make affects the names in it only, and a name whose bucket
// is there is claimed beside them.
func TestBucketThatCannotBeMade(t *testing.T) {
	s, path := shared(t), fresh()
	makes := func(node string) {
		if _, err := s.conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil &&
			!errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	for _, node := range []string{"/test", path, bucketOf(path, "a")} {
		makes(node)
	}
	const rights = zk.PermRead | zk.PermWrite | zk.PermDelete | zk.PermAdmin
	if _, err := s.conn.SetACL(path, zk.WorldACL(rights), -1); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		var claims []store.Claim
		for _, name := range names {
			claims = append(claims, store.Claim{Name: name, Holder: "x", TTL: time.Hour})
		}
		outcomes, err := on(t, s.conn, path).Acquire(background, claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			denied := errors.Is(o.Err, fs.ErrPermission) && !errors.Is(o.Err, store.ErrUnknown)
			if denied != (names[i] == "b") || !denied && o.Err != nil {
				t.Errorf("a claim of %s of %q: %+v", names[i], names, o)
			}
		}
	}
	if _, err := s.conn.SetACL(path, zk.WorldACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(background, on(t, s.conn, path), "b", "x", time.Hour); err != nil {
		t.Errorf("after the right has come: %v", err)
	}
}

// TestBucketThatCannotBeRead: a bucket that the user may not read keeps no name of another one from being forgotten,
// and the sweep names it. A list is an error: nobody knows which names it lacks.
func TestBucketThatCannotBeRead(t *testing.T) {
	s, path := shared(t), fresh()
	a := on(t, s.conn, path)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		grant, err := claim(background, a, name, "x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		errs, err := a.Release(background, []store.Release{{Name: name, Holder: "x", Token: grant.Token}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	bucket := bucketOf(path, "c")
	others := zk.DigestACL(zk.PermAll, "other", "x")
	if _, err := s.conn.SetACL(bucket, others, -1); err != nil {
		t.Fatal(err)
	}
	n, err := a.Sweep(background, 100)
	if n != len(names)-1 || !errors.Is(err, fs.ErrPermission) || !says(err, bucket) {
		t.Errorf("a sweep forgot %d records, %v, want %d and an error that names %s", n, err, len(names)-1, bucket)
	}
	var listed error
	for _, err := range a.List(background, "") {
		listed = err
	}
	if !errors.Is(listed, fs.ErrPermission) {
		t.Errorf("a list: %v, want that it is not allowed", listed)
	}
}

// TestServerWithoutAConfiguration: a server that has no node for its configuration, as before ZooKeeper 3.5, leaves unknown how many vote, and nothing else.
func TestServerWithoutAConfiguration(t *testing.T) {
	p := newProxy(t, shared(t).Addr)
	p.asks = func(request []byte) { // for another node, which is not there
		if i := bytes.Index(request, []byte("/zookeeper/config")); i >= 0 {
			copy(request[i:], "/zookeeper/absent")
		}
	}
	a := openURL(t, p.addr(), fresh())
	if _, err := claim(background, a, "a", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	c, err := a.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Unknown {
		t.Errorf("got %+v, %v, want that it is unknown what is durable", c, err)
	}
	findings, err := a.Examine(background)
	if err != nil || len(findings) != 3 || findings[0].Subject != "servers" || findings[0].Level != store.LevelUnknown || findings[1].Level != store.LevelOK {
		t.Errorf("got %+v, %v, want that the number of servers is unknown, and that the rights are there", findings, err)
	}
}

// TestServersThatVote: three servers that vote, or five, are right, and the capabilities name them. An even number of
// servers does no more than one less, and one server alone stops everything when it ends.
func TestServersThatVote(t *testing.T) {
	s := shared(t)
	const instead = "/config-of-others" // as long as the path of the configuration
	if _, err := s.conn.Create(instead, nil, 0, zk.WorldACL(zk.PermAll)); err != nil &&
		!errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	p := newProxy(t, s.Addr)
	p.asks = func(request []byte) {
		if i := bytes.Index(request, []byte("/zookeeper/config")); i >= 0 {
			copy(request[i:], instead)
		}
	}
	a := openURL(t, p.addr(), fresh())
	for n, want := range map[int]store.Level{
		0: store.LevelWarning, 2: store.LevelWarning, 3: store.LevelOK, 4: store.LevelWarning, 5: store.LevelOK,
	} {
		configuration, name := "", "ZooKeeper, one server"
		for i := range n {
			configuration += fmt.Sprintf("server.%d=a:2888:3888:participant\n", i)
			name = fmt.Sprintf("ZooKeeper, %d servers that vote", n)
		}
		configuration += "server.9=a:2888:3888:observer\nversion=1"
		if _, err := s.conn.Set(instead, []byte(configuration), -1); err != nil {
			t.Fatal(err)
		}
		findings, err := a.Examine(background)
		if err != nil || findings[0].Subject != "servers" || findings[0].Level != want ||
			(findings[0].Fix == "") != (want == store.LevelOK) {
			t.Errorf("%d servers vote: %+v, %v, want first the level %v", n, findings, err, want)
		}
		c, err := a.Capabilities(background)
		if err != nil || c.Backend != name || c.Scope != store.ScopeFleet ||
			c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes || c.Waiting.Answer != store.Yes {
			t.Errorf("%d servers vote: %+v, %v, want %q", n, c, err, name)
		}
	}
}

// TestReadersAreNoWriters: who may only read is told that it may not write, and an ACL that lets everybody read lets
// nobody else write.
func TestReadersAreNoWriters(t *testing.T) {
	s, path := shared(t), fresh()
	acl := append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "soloist", "secret")...)
	if _, err := s.conn.Create("/test", nil, 0, zk.WorldACL(zk.PermAll)); err != nil &&
		!errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	if _, err := s.conn.Create(path, nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	writer := openURL(t, "soloist:secret@"+s.Addr, path)
	grant, err := claim(background, writer, "a", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	children := func() (names []string) {
		names, _, err := s.conn.Children(path)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := children()
	for who, test := range map[string]struct {
		by    *zkstore.Store
		level store.Level
		found string
		more  int
	}{
		"who may only read": {openURL(t, s.Addr, path), store.LevelError, "may not create nodes below " + path, 0},
		"who may write":     {writer, store.LevelOK, "may create nodes below " + path, 1},
	} {
		findings, err := test.by.Examine(background)
		if err != nil || len(findings) != 2+test.more {
			t.Fatalf("%s: %+v, %v", who, findings, err)
		}
		if f := findings[1]; f.Subject != "rights" || f.Level != test.level || !strings.Contains(f.Found, test.found) {
			t.Errorf("%s: %+v, want %q", who, f, test.found)
		}
		last := findings[len(findings)-1]
		if test.more > 0 && (last.Subject != "others" || last.Level != store.LevelOK) {
			t.Errorf("%s: %+v, want that others may not write", who, last)
		}
	}
	if now := children(); !slices.Equal(now, before) {
		t.Errorf("the examinations have changed the nodes %q to %q", before, now)
	}
	err = extend(background, openURL(t, s.Addr, path), "a", grant.Token, time.Hour)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("an extension by a reader: %v, want that it is not allowed", err)
	}
}
