package joblocks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/examples/joblocks"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var (
	hazelcast = servers.Shared(func(t servers.Test) *servers.HazelcastServer { return servers.Hazelcast(t) })
	redis     = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })
)

// The same code runs on the backend that is left, and on the one that it is left for.
func TestJobLocks(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"Hazelcast": func(t *testing.T) (store.Store, error) {
			return hazelcaststore.OpenURL(t.Context(), "hazelcast://"+hazelcast(t).Addr+"?cluster="+servers.HazelcastName+"&minmembers=1&dialtimeout=5m")
		},
		"Redis": func(t *testing.T) (store.Store, error) {
			return redisstore.OpenURL(t.Context(), "redis://"+redis(t).Addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := func() *soloist.Client {
				s, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				if ping, ok := store.As[store.Pinger](s); !ok || ping.Ping(t.Context()) != nil {
					t.Fatal("the store does not respond")
				}
				c, err := soloist.New(s, soloist.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			here, there := client(), client()
			t.Run("locks", func(t *testing.T) {
				locks(t, &joblocks.JobLockManager{Client: here}, &joblocks.JobLockManager{Client: there})
			})
			t.Run("semaphores", func(t *testing.T) {
				semaphores(t, &joblocks.JobSemaphore{Client: here, Permits: 2}, &joblocks.JobSemaphore{Client: there, Permits: 2})
			})
		})
	}
}

func locks(t *testing.T, here, there *joblocks.JobLockManager) {
	ctx := t.Context()
	held, err := here.Lock(ctx, "invoices", "4711")
	if err != nil || held.Err() != nil {
		t.Fatal(err, held)
	}
	if _, err := there.Lock(ctx, "invoices", "4711"); !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("while it is locked: %v, want that it is held", err)
	}
	if _, err := there.Lock(ctx, "invoices", "4712"); err != nil {
		t.Errorf("another element: %v", err)
	}
	if err := here.Unlock("invoices", "4711"); err != nil || held.Err() == nil {
		t.Errorf("unlocking: %v, and the context has ended with %v", err, held.Err())
	}
	if _, err := there.Lock(ctx, "invoices", "4711"); err != nil {
		t.Fatalf("after it was unlocked: %v", err)
	}
	if err := there.SuccessfullyProcessed("invoices", "4711"); err != nil {
		t.Fatal(err)
	}
	if err := there.Unlock("invoices", "4711"); err != nil {
		t.Errorf("unlocking what is processed: %v, want nil", err)
	}
	if _, err := here.Lock(ctx, "invoices", "4711"); !errors.Is(err, soloist.ErrDone) {
		t.Errorf("after it was processed: %v, want that it is done", err)
	}
	if err := here.SuccessfullyProcessed("invoices", "4711"); !errors.Is(err, soloist.ErrLost) {
		t.Errorf("without the lock: %v, want that it is lost", err)
	}
}

func semaphores(t *testing.T, here, there *joblocks.JobSemaphore) {
	acquire := func(s *joblocks.JobSemaphore) (context.Context, error) { return s.TryAcquire(t.Context(), "export") }
	first, err := acquire(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(there); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(there); !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("the third of two permits: %v, want that they are taken", err)
	}
	if err := here.Release(first); err != nil || first.Err() == nil {
		t.Errorf("a release: %v, and the context has ended with %v", err, first.Err())
	}
	if err := here.Release(first); !errors.Is(err, soloist.ErrLost) {
		t.Errorf("a release without a permit: %v, want that there is none", err)
	}
	if _, err := acquire(there); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

// Who has lost a lock and does not know it yet can end it, but not that of another goroutine of its process.
func TestLockThatWasLost(t *testing.T) {
	for name, late := range map[string]func(*testing.T, *joblocks.JobLockManager){
		"unlocked": func(t *testing.T, m *joblocks.JobLockManager) {
			if err := m.Unlock("invoices", "4711"); !errors.Is(err, soloist.ErrLost) {
				t.Errorf("unlocking what is lost: %v", err)
			}
		},
		"processed": func(t *testing.T, m *joblocks.JobLockManager) {
			for range 2 {
				if err := m.SuccessfullyProcessed("invoices", "4711"); !errors.Is(err, soloist.ErrLost) {
					t.Errorf("recording as processed what is lost: %v", err)
				}
			}
			if _, err := m.Lock(t.Context(), "invoices", "4711"); !errors.Is(err, soloist.ErrHeld) {
				t.Errorf("a lock before the one that was lost is unlocked: %v, want that it is held", err)
			}
			_ = m.Unlock("invoices", "4711")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, s := soloisttest.NewClient(t)
				m := &joblocks.JobLockManager{Client: client}
				lost, err := m.Lock(t.Context(), "invoices", "4711")
				if err != nil {
					t.Fatal(err)
				}
				s.Break(nil)
				<-lost.Done()
				s.Heal()
				time.Sleep(time.Minute) // as long as a lease can last
				if _, err := m.Lock(t.Context(), "invoices", "4711"); !errors.Is(err, soloist.ErrHeld) {
					t.Errorf("while another goroutine works under the lock that was lost: %v, want that it is held", err)
				}
				late(t, m)
				held, err := m.Lock(t.Context(), "invoices", "4711")
				if err != nil || held.Err() != nil {
					t.Fatal(err, held)
				}
				if err := m.SuccessfullyProcessed("invoices", "4711"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Each goroutine gives back its own permit, also one that is lost.
func TestPermitsOfGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := soloisttest.NewClient(t)
		m := &joblocks.JobSemaphore{Client: client, Permits: 2}
		acquire := func() context.Context {
			t.Helper()
			permit, err := m.TryAcquire(t.Context(), "export")
			if err != nil {
				t.Fatal(err)
			}
			return permit
		}
		lost := acquire()
		s.Break(nil)
		<-lost.Done()
		s.Heal()
		time.Sleep(time.Minute)
		first, second := acquire(), acquire()
		if err := m.Release(lost); !errors.Is(err, soloist.ErrLost) || first.Err() != nil || second.Err() != nil {
			t.Errorf("a release of what is lost: %v; of the others: %v, %v", err, first.Err(), second.Err())
		}
		if err := m.Release(first); err != nil || second.Err() != nil {
			t.Errorf("a release: %v, and the permit of another goroutine has ended with %v", err, second.Err())
		}
		if err := m.Release(first); !errors.Is(err, soloist.ErrLost) {
			t.Errorf("another release: %v, want that there is none", err)
		}
	})
}
