package etcdstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestRevisionFalls: a store that has seen a later revision than etcd replies with grants nothing, extends nothing, and says that tokens would be granted again.
// Of more than fifty names only the key of their session is checked, and an older copy has that.
func TestRevisionFalls(t *testing.T) {
	servers.Long(t)
	for what, older := range map[string]bool{"etcd has lost its data": false, "etcd has an older copy of its data": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			member := servers.Etcd(t, 1)[0]
			data := filepath.Join(filepath.Dir(member.LogFile()), "data")
			client := newClient(t, member.URL)
			t.Cleanup(func() { _ = client.Close() })
			s := on(t, client, prefix())
			const ttl = time.Hour
			if _, err := acquire(background, s, "before", ttl); err != nil { // there is a session from now on
				t.Fatal(err)
			}
			if older {
				member.Stop()
				if err := os.CopyFS(data+".older", os.DirFS(data)); err != nil {
					t.Fatal(err)
				}
				member.Start()
			}
			var extensions []store.Extension
			for i := range 60 {
				name := fmt.Sprint("name/", i)
				var grant store.Grant
				servers.Wait(t, "a grant", func() (granted bool) {
					var err error
					grant, err = acquire(background, s, name, ttl)
					return err == nil
				})
				extensions = append(extensions, store.Extension{Name: name, Holder: "x", Token: grant.Token, TTL: ttl})
			}
			member.Kill()
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if older {
				if err := os.Rename(data+".older", data); err != nil {
					t.Fatal(err)
				}
			}
			member.Start()
			var err error
			servers.Wait(t, "an extension to be decided", func() bool {
				var errs []error
				errs, err = s.Extend(background, extensions)
				err = errors.Join(append(errs, err)...)
				return err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnusable)
			})
			if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "has fallen from") {
				t.Errorf("the extension: %.300v, want that the revision has fallen", err)
			}
			if grant, err := acquire(background, s, "after", ttl); !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("a claim got %+v, %v, want that the revision has fallen, and that nothing was sent", grant, err)
			}
			if err := s.Ping(background); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("a ping: %v, want that the revision has fallen", err)
			}
		})
	}
}

// TestNothingIsWrittenAfterALoss: the first that a store without a lease of etcd sends for a claim is a request for one. If etcd has lost its data, the reply tells: so no name is taken
// there, and no token is granted again.
func TestNothingIsWrittenAfterALoss(t *testing.T) {
	servers.Long(t)
	member := servers.Etcd(t, 1)[0]
	data := filepath.Join(filepath.Dir(member.LogFile()), "data")
	client, below := newClient(t, member.URL), prefix()
	t.Cleanup(func() { _ = client.Close() })
	s := on(t, client, below)
	if _, err := acquire(background, s, "before", time.Hour); err != nil {
		t.Fatal(err)
	}
	member.Kill()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	member.Start()
	var grant store.Grant
	var err error
	servers.Wait(t, "a claim to be decided", func() bool {
		grant, err = acquire(background, s, "after", time.Minute) // which needs a lease of etcd of its own
		return err == nil || errors.Is(err, store.ErrUnusable)
	})
	if !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %+v, %v, want that the revision has fallen, and that nothing was granted", grant, err)
	}
	if kvs, err := client.Get(background, below, clientv3.WithPrefix()); err != nil || len(kvs.Kvs) > 0 {
		t.Errorf("etcd has %v, %v, want nothing", kvs, err)
	}
}
