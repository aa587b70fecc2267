package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestSessionWithoutItsLease: the key of a session that something else has written back without its lease of etcd, as a copy of the keys does, holds no name forever.
// While that lease is there the names are held.
func TestSessionWithoutItsLease(t *testing.T) {
	server := shared(t)
	other, err := server.client.Grant(background, 3600)
	if err != nil {
		t.Fatal(err)
	}
	for what, lease := range map[string]clientv3.LeaseID{"no lease": clientv3.NoLease, "another lease": other.ID} {
		for how, next := range map[string]func(t *testing.T, s *etcdstore.Store) store.Grant{
			"a claim": func(t *testing.T, s *etcdstore.Store) store.Grant {
				grant, err := claimed(t, s, "name")
				if err != nil {
					t.Fatal(err)
				}
				return grant
			},
			"a choice": func(t *testing.T, s *etcdstore.Store) store.Grant {
				_, grant, err := s.Choose(background, []string{"name"}, store.Claim{Holder: "y", TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				return grant
			},
			"a waiter": func(t *testing.T, s *etcdstore.Store) store.Grant {
				return served(t, waiting(background, s, "name", "y"))
			},
		} {
			for seen, look := range map[string]func(s *etcdstore.Store){
				"unseen":     func(*etcdstore.Store) {},
				"seen held":  func(s *etcdstore.Store) { _, _ = claimed(t, s, "name") },
				"seen ended": nil,
			} {
				t.Run(what+"/"+how+"/"+seen, func(t *testing.T) {
					below := prefix()
					s := server.open(t, below)
					dead, err := acquire(background, server.open(t, below), "name", time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					key := below + "s/" + string(server.session(t, below, "name"))
					if look != nil {
						look(s)
					}
					server.revoke(t, below, "name")
					if look == nil {
						for _, err := range s.List(background, "") {
							if err != nil {
								t.Fatal(err)
							}
						}
					}
					if _, err := server.client.Put(background, key, "", clientv3.WithLease(lease)); err != nil {
						t.Fatal(err)
					}
					if got := next(t, s); got.Token <= dead.Token || got.ExpiredAge == 0 {
						t.Errorf("got %+v, want a token above %d, after a lease that has expired", got, dead.Token)
					}
				})
			}
		}
		t.Run(what+"/the lease is there", func(t *testing.T) {
			below := prefix()
			s, next := server.open(t, below), server.open(t, below)
			grant, err := acquire(background, s, "name", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.client.Put(background, below+"s/"+string(server.session(t, below, "name")), "", clientv3.WithLease(lease)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if got, err := claimed(t, next, "name"); !errors.Is(err, store.ErrHeld) {
					t.Fatalf("got %+v, %v while the name is held", got, err)
				}
			}
			if err := extend(background, s, "name", grant.Token, time.Hour); err != nil {
				t.Errorf("an extension: %v", err)
			}
			woken, err := next.Watch(background, []string{"name"})
			if err != nil {
				t.Fatal(err)
			}
			server.revoke(t, below, "name")
			select {
			case <-woken:
			case <-time.After(servers.Patience):
				t.Error("those who watch the name are not told of the end of the lease")
			}
			if got, err := claimed(t, next, "name"); err != nil || got.ExpiredAge == 0 {
				t.Errorf("got %+v, %v, want a grant after a lease that has expired", got, err)
			}
		})
	}
}
