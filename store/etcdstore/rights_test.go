package etcdstore_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestRights: a user with the rights of the documentation can do all that a store does, and errors name what is missing.
func TestRights(t *testing.T) {
	member := servers.Etcd(t, 1)[0]
	root := newClient(t, member.URL)
	t.Cleanup(func() { _ = root.Close() })
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"root", "soloist", "stranger"} {
		_, err := root.UserAdd(background, name, "pa/ss@word")
		do("adding "+name, err)
		_, err = root.RoleAdd(background, name)
		do("adding the role of "+name, err)
		_, err = root.UserGrantRole(background, name, name)
		do("granting the role of "+name, err)
	}
	_, err := root.RoleGrantPermission(background, "soloist", "locks/", clientv3.GetPrefixRangeEnd("locks/"), clientv3.PermissionType(clientv3.PermReadWrite))
	do("granting the rights", err)
	open := func(user string) *etcdstore.Store {
		s, err := etcdstore.OpenURL(background, "etcd://"+user+member.Addr+"/locks?dialtimeout=5m")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	unchecked := func(s *etcdstore.Store) bool {
		findings, err := s.Examine(background)
		do("examining", err)
		return slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Subject == "users" && f.Level == store.LevelWarning })
	}
	if unchecked(open("")) || !unchecked(open("soloist:wrong@")) {
		t.Error("without users only a user is to be reported")
	}
	_, err = root.AuthEnable(background)
	do("switching users on", err)
	if unchecked(open("soloist:pa%2Fss%40word@")) || unchecked(open("root:pa%2Fss%40word@")) {
		t.Error("with users they are reported as missing")
	}

	s, other := open("soloist:pa%2Fss%40word@"), open("soloist:pa%2Fss%40word@")
	woken, err := other.Watch(background, []string{"a"})
	do("watching", err)
	grant, err := acquire(background, s, "a", time.Minute)
	do("acquiring", err)
	do("extending to more", extend(background, s, "a", grant.Token, time.Hour))
	do("extending again", extend(background, s, "a", grant.Token, time.Hour))
	do("extending by another process", extend(background, other, "a", grant.Token, 2*time.Hour))
	errs, err := s.Release(background, []store.Release{{Name: "a", Holder: "x", Token: grant.Token, Linger: time.Second}})
	do("releasing", errors.Join(append(errs, err)...))
	<-woken
	await(t, other, "a")
	if _, err := acquire(background, s, "b", time.Second); err != nil {
		t.Error(err)
	}
	await(t, other, "b") // it was ended by the store, or by etcd
	for _, err := range s.List(background, "") {
		do("listing", err)
	}
	_, err = s.Sweep(background, 10)
	do("sweeping", err)
	findings, err := s.Examine(background)
	do("examining", err)
	for _, f := range findings {
		if f.Level == store.LevelError {
			t.Errorf("%+v", f)
		}
	}

	for user, says := range map[string]string{
		"":                            "user", // etcd wants one
		"stranger:pa%2Fss%40word@":    "readwrite for the prefix",
		"soloist:wrong@":              "password is wrong",
		"nobody-here:pa%2Fss%40word@": "password is wrong",
	} {
		s := open(user)
		_, err := acquire(background, s, "c", time.Hour)
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want that it is not allowed, and %q", user, err, says)
		}
		if err := s.Ping(background); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q: Ping: %v", user, err)
		}
	}
}

// TestFullDatabase: a full database refuses claims, says what to do, and frees names that nobody extends.
func TestFullDatabase(t *testing.T) {
	member := servers.Etcd(t, 1, "--quota-backend-bytes", "1000000")[0]
	client := newClient(t, member.URL)
	t.Cleanup(func() { _ = client.Close() })
	s := on(t, client, prefix())
	if _, err := acquire(background, s, "a", time.Second); err != nil {
		t.Fatal(err)
	}
	held, err := acquire(background, s, "b", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the database to be full", func() bool {
		_, err := client.Put(background, "fill", strings.Repeat("x", 100_000))
		return err != nil
	})
	var claimed error
	servers.Wait(t, "a claim to be refused", func() bool { // the alarm is raised a moment later
		_, claimed = acquire(background, s, "c", time.Hour)
		return claimed != nil
	})
	if !says(claimed, "etcdctl alarm disarm") {
		t.Errorf("a claim: %v, want that the database is full and what to do", claimed)
	}
	if err := extend(background, s, "b", held.Token, time.Hour); err != nil {
		t.Errorf("an extension writes nothing, and has to be possible: %v", err)
	}
	if err := release(background, s, "b", held.Token); !errors.Is(err, store.ErrUnknown) || !says(err, "database is full") {
		t.Errorf("a release: %v, want that the database is full, and an unknown outcome", err)
	}
	servers.Wait(t, "the name that nobody extends to be free", func() bool {
		for r, err := range s.List(background, "a") {
			if err != nil {
				t.Fatal(err)
			}
			return r.Free()
		}
		return false
	})
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Subject == "alarms" && (f.Level != store.LevelError || !strings.Contains(f.Found, "NOSPACE")) {
			t.Errorf("%+v, want the alarm", f)
		}
	}
}
