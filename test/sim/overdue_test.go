package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

const (
	lifetime = 30 * time.Second // of a lease
	lingers  = time.Minute
)

// lives calls does in a process that begins, and ends with the test or when the returned function is called.
func (b *items) lives(t *testing.T, does func(*soloist.Client)) (end func()) {
	t.Helper()
	c, err := soloist.New(b.open(0), soloist.Config{TTL: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	end = func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	does(c)
	return end
}

// dies calls does in a process that begins, and is killed then: what others would see of its end does not happen.
func (b *items) dies(t *testing.T, does func(*soloist.Client)) {
	t.Helper()
	end := b.lives(t, does)
	b.mu.Lock()
	left := maps.Clone(b.kept)
	b.mu.Unlock()
	end()
	b.mu.Lock()
	b.kept = left
	b.mu.Unlock()
}

// rewrite writes the record of a lock as another process does whose clock is a day behind: it has another version then.
func (b *items) rewrite(name string, change func(*casstore.Record)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, r := range b.kept {
		if strings.HasSuffix(key, "/"+name) {
			change(&r)
			r.Write = "another" + r.Write // the time in it stays
			b.kept[key] = r
		}
	}
}

// What a process leaves, and what others ask for.
func lockA(c *soloist.Client) error { return released(c.TryLock(context.Background(), "a")) }

func takeA(c *soloist.Client) { _, _ = c.TryLock(context.Background(), "a") }

func lingerA(c *soloist.Client) {
	_ = c.With(soloist.Options{AtLeast: lingers}).Do(context.Background(), "a", func(context.Context, *soloist.Lease) error { return nil })
}

func takeElement(c *soloist.Client) {
	_, _ = c.Elements("job", soloist.ElementsOptions{}).Claim(context.Background(), "1")
}

func failElement(c *soloist.Client) {
	e := c.Elements("job", soloist.ElementsOptions{Retry: soloist.Retry{Backoff: lingers}})
	_ = e.Process(context.Background(), "1", func(context.Context, *soloist.Element) error { return errors.New("broken") })
}

// runJob begins a run.
func runJob(c *soloist.Client) {
	begun := make(chan struct{})
	go func() {
		_ = c.Run(context.Background(), soloist.Job{Name: "job", Schedule: soloist.Delay(time.Hour), Do: func(ctx context.Context, _ soloist.Run) error {
			close(begun)
			<-ctx.Done()
			return nil
		}})
	}()
	<-begun
}

// haveJob has a job that does not run yet.
func haveJob(c *soloist.Client) {
	r, err := c.NewRunner(soloist.Job{Name: "job", Schedule: soloist.Every(24 * time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
	if err != nil {
		panic(err)
	}
	go func() { _ = r.Run(context.Background()) }()
	<-r.Ready()
}

// refused returns nil for ErrHeld alone.
func refused(err error) error {
	if errors.Is(err, soloist.ErrHeld) {
		return nil
	}
	return fmt.Errorf("%w, want that it is refused", cmp.Or(err, errors.New("done")))
}

func released(l *soloist.Lease, err error) error {
	if err != nil {
		return err
	}
	return l.Release()
}

func detachedA(c *soloist.Client) error {
	_, _, err := c.Detached().Acquire(context.Background(), soloist.Detached{Kind: soloist.KindLock, Name: "a", Holder: "h"}, false)
	return err
}

func seconds(wait time.Duration) soloist.Options { return soloist.Options{Wait: wait} }

// On a store without a clock, a name that has been free for an hour is granted to a process that has just begun and asks once, as soon as that has seen that it is free. A
// process that did not wait for that would be refused, and so would each later one.
func TestOverdueNamesAreTaken(t *testing.T) {
	ctx := context.Background()
	for _, row := range []struct {
		rule string
		left func(*soloist.Client)
		asks func(*soloist.Client) error
		want time.Duration // how long it waits
	}{
		{"TryLock", takeA, lockA, lifetime},
		{"Do", takeA, func(c *soloist.Client) error {
			return c.Do(ctx, "a", func(context.Context, *soloist.Lease) error { return nil })
		}, lifetime},
		{"Lock that waits for less", takeA, func(c *soloist.Client) error { return released(c.With(seconds(time.Second)).Lock(ctx, "a")) }, lifetime},
		{"a linger", lingerA, lockA, lingers},
		{"a holder outside", takeA, detachedA, lifetime},
		{"a holder outside that waits for less", takeA, func(c *soloist.Client) error { return detachedA(c.With(seconds(time.Second))) }, lifetime},
		{"an element", takeElement, func(c *soloist.Client) error {
			return c.Elements("job", soloist.ElementsOptions{}).Process(ctx, "1", func(_ context.Context, e *soloist.Element) error {
				if e.Attempt() != 2 {
					return fmt.Errorf("attempt %d", e.Attempt())
				}
				return nil
			})
		}, lifetime},
		{"a back-off", failElement, func(c *soloist.Client) error {
			return c.Elements("job", soloist.ElementsOptions{}).Process(ctx, "1", func(context.Context, *soloist.Element) error { return nil })
		}, lingers},
		{"a back-off, of a holder outside", failElement, func(c *soloist.Client) error {
			_, err := c.Elements("job", soloist.ElementsOptions{}).ClaimDetached(ctx, "1", "h", false)
			return err
		}, lingers},
		{"a back-off, by hand", failElement, func(c *soloist.Client) error { return c.Admin().RetryElement(ctx, "job", "1") }, lingers},
		{"a back-off, by hand, without waiting", failElement, func(c *soloist.Client) error {
			return refused(c.With(soloist.Options{Overdue: -1}).Admin().RetryElement(ctx, "job", "1"))
		}, 0},
		{"a job to forget", runJob, func(c *soloist.Client) error { return c.Admin().Forget(ctx, "job") }, lifetime},
		{"a job to forget that does not run", haveJob, func(c *soloist.Client) error { return c.Admin().Forget(ctx, "job") }, lifetime},
		{"a job to forget that does not run, without waiting", haveJob, func(c *soloist.Client) error {
			if err := c.With(soloist.Options{Overdue: -1}).Admin().Forget(ctx, "job"); !errors.Is(err, soloist.ErrInUse) {
				return fmt.Errorf("%w, want that it is in use", cmp.Or(err, errors.New("done")))
			}
			return nil
		}, 0},
		{"a job to forget, without waiting", runJob, func(c *soloist.Client) error {
			return refused(c.With(soloist.Options{Overdue: -1}).Admin().Forget(ctx, "job"))
		}, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &items{kept: map[string]casstore.Record{}}
				b.dies(t, row.left)
				time.Sleep(time.Hour)
				b.lives(t, func(c *soloist.Client) {
					begun := time.Now()
					if err := row.asks(c); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took != row.want {
						t.Errorf("it waits for %v, want %v", took, row.want)
					}
				})
			})
		})
	}
}

// looking is a store without a clock that cannot choose one of several names, such as that of a move.
type looking struct{ store.Store }

func (looking) Clockless() {}

// Who asks for any permit waits for one whose holder died long ago, also if a living holder has one for less time. A living one alone is not waited for.
func TestOverduePermitBesideALivingOne(t *testing.T) {
	for _, row := range []struct {
		rule  string
		looks bool // the store does not choose
		opts  soloist.Options
		want  time.Duration
		err   error
	}{
		{"a store that chooses", false, soloist.Options{}, lifetime, nil},
		{"a store that does not choose", true, soloist.Options{}, lifetime, nil},
		{"a store that does not choose, without waiting", true, soloist.Options{Overdue: -1}, 0, soloist.ErrHeld},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &items{kept: map[string]casstore.Record{}}
				take := func(c *soloist.Client) error {
					_, err := c.Semaphore("s", 2).TryAcquire(t.Context())
					return err
				}
				b.dies(t, func(c *soloist.Client) { _ = take(c) })
				b.lives(t, func(c *soloist.Client) {
					if err := take(c.With(soloist.Options{TTL: lifetime / 3})); err != nil {
						t.Fatal(err)
					}
				})
				time.Sleep(time.Hour)
				var s store.Store = b.open(0)
				if row.looks {
					s = looking{s}
				}
				c, err := soloist.New(s, soloist.Config{TTL: lifetime})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				for _, want := range []error{row.err, soloist.ErrHeld} { // the second time there are living holders alone
					begun := time.Now()
					if err := take(c.With(row.opts)); !errors.Is(err, want) || want == nil && time.Since(begun) != row.want || want != nil && time.Since(begun) != 0 {
						t.Errorf("after %v: %v", time.Since(begun), err)
					}
				}
			})
		})
	}
}

// Of several elements the one whose holder died long ago is claimed with the others, which are kept meanwhile. One that is held, or lingers for longer than a TTL, is not waited for.
func TestOverdueElementAmongOthers(t *testing.T) {
	for _, row := range []struct {
		rule string
		opts soloist.Options
		want []error
		took time.Duration
	}{
		{"as it is", soloist.Options{}, []error{nil, nil, soloist.ErrHeld, soloist.ErrHeld}, lifetime},
		{"leases that end", soloist.Options{AtMost: lifetime}, []error{soloist.ErrHeld, nil, soloist.ErrHeld, soloist.ErrHeld}, 0},
		{"no waiting", soloist.Options{Overdue: -1}, []error{soloist.ErrHeld, nil, soloist.ErrHeld, soloist.ErrHeld}, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &items{kept: map[string]casstore.Record{}}
				claim := func(c *soloist.Client, opts soloist.Options, ids ...string) []soloist.Claimed {
					all, err := c.With(opts).Elements("job", soloist.ElementsOptions{Retry: soloist.Retry{Backoff: lingers}}).ClaimAll(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					return all
				}
				b.dies(t, func(c *soloist.Client) {
					both := claim(c, soloist.Options{}, "dead", "failed")
					if err := both[1].Element.Fail(nil); err != nil {
						t.Fatal(err)
					}
				})
				b.lives(t, func(c *soloist.Client) { claim(c, soloist.Options{}, "living") })
				time.Sleep(time.Hour)
				b.lives(t, func(c *soloist.Client) {
					begun := time.Now()
					all := claim(c, row.opts, "dead", "new", "living", "failed")
					for i, one := range all {
						if !errors.Is(one.Err, row.want[i]) || (one.Element == nil) != (row.want[i] != nil) {
							t.Errorf("%s: %v, want %v", one.ID, one.Err, row.want[i])
						}
					}
					if took := time.Since(begun); took != row.took {
						t.Errorf("it waits for %v, want %v", took, row.took)
					}
				})
			})
		})
	}
}

// A name whose holder lives is refused at once, for however long that has had it.
func TestLivingHolderIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &items{kept: map[string]casstore.Record{}}
		b.lives(t, func(c *soloist.Client) { takeA(c); takeElement(c) })
		for range 20 { // at different times since the last renewal
			time.Sleep(time.Hour + time.Second)
			b.lives(t, func(c *soloist.Client) {
				begun := time.Now()
				if err := lockA(c); !errors.Is(err, soloist.ErrHeld) {
					t.Fatal(err)
				}
				if err := detachedA(c); !errors.Is(err, soloist.ErrHeld) {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != 0 {
					t.Fatalf("refused after %v", took)
				}
			})
		}
	})
}

// A refusal tells for how long what is in the way has to be watched yet if it is overdue, and goes on to tell that it is after that; of a holder that lives it tells nothing.
func TestOverdueIsToldWithARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &items{kept: map[string]casstore.Record{}}
		b.dies(t, takeA)
		time.Sleep(time.Hour)
		b.lives(t, func(c *soloist.Client) {
			_, err := c.With(soloist.Options{Overdue: -1}).TryLock(t.Context(), "a")
			held, is := errors.AsType[*soloist.HeldError](err)
			if !is || held.Overdue() != lifetime {
				t.Fatalf("%v; want that it is overdue for another %v", err, lifetime)
			}
			time.Sleep(2 * lifetime)
			if held.Overdue() <= 0 {
				t.Errorf("overdue for another %v when it has been watched for long enough", held.Overdue())
			}
			if _, err = c.TryLock(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			_, err = c.TryLock(t.Context(), "a")
			if held, is = errors.AsType[*soloist.HeldError](err); !is || held.Overdue() != 0 {
				t.Errorf("%v; want that it is held, and not overdue", err)
			}
		})
	})
}

// A wait for what is overdue ends with the caller and with the client, and is not begun if it would end too late. It ends in a refusal if somebody has taken or extended the lease meanwhile, whatever
// the clocks say.
func TestOverdueWaitsThatEndInARefusal(t *testing.T) {
	for _, row := range []struct {
		rule string
		left func(*soloist.Client)
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		opts soloist.Options
		also func(b *items, c *soloist.Client) // ten seconds after the call
		want time.Duration
	}{
		{rule: "a deadline before", left: takeA, ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, lifetime)
		}},
		{rule: "no waiting", left: takeA, opts: soloist.Options{Overdue: -1}},
		{rule: "a linger of years", left: func(c *soloist.Client) {
			_ = c.With(soloist.Options{AtLeast: 2 * time.Hour}).Do(context.Background(), "a", func(context.Context, *soloist.Lease) error { return nil })
		}},
		{rule: "it is cancelled", left: takeA, ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Second, cancel)
			return ctx, cancel
		}, want: 10 * time.Second},
		{rule: "the client is shut down", left: takeA, also: func(_ *items, c *soloist.Client) { _ = c.Shutdown(context.Background()) }, want: 10 * time.Second},
		{rule: "another takes it", left: takeA, also: func(b *items, _ *soloist.Client) {
			b.rewrite("a", func(r *casstore.Record) { r.Token++; r.Holder = "another" })
		}, want: lifetime},
		{rule: "the holder lives, and its clock is wrong", left: takeA, also: func(b *items, _ *soloist.Client) { b.rewrite("a", func(*casstore.Record) {}) }, want: lifetime},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &items{kept: map[string]casstore.Record{}}
				b.dies(t, row.left)
				time.Sleep(24 * time.Hour)
				b.lives(t, func(c *soloist.Client) {
					ctx, cancel := context.WithCancel(t.Context())
					if row.ctx != nil {
						ctx, cancel = row.ctx(t.Context())
					}
					defer cancel()
					if row.also != nil {
						time.AfterFunc(10*time.Second, func() { row.also(b, c) })
					}
					begun := time.Now()
					_, err := c.With(row.opts).TryLock(ctx, "a")
					if !errors.Is(err, soloist.ErrHeld) {
						t.Errorf("TryLock: %v", err)
					}
					if took := time.Since(begun); took != row.want {
						t.Errorf("refused after %v, want %v", took, row.want)
					}
				})
			})
		})
	}
}

// A client that is closed while it waits for one of several elements returns none.
func TestOverdueElementOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &items{kept: map[string]casstore.Record{}}
		b.dies(t, takeElement)
		time.Sleep(time.Hour)
		b.lives(t, func(c *soloist.Client) {
			time.AfterFunc(lifetime/2, func() { _ = c.Close() })
			all, err := c.Elements("job", soloist.ElementsOptions{}).ClaimAll(t.Context(), []string{"1", "new"})
			if !errors.Is(err, soloist.ErrClosed) || all != nil {
				t.Errorf("%+v, %v; want nothing but that the client is closed", all, err)
			}
		})
	})
}

// A job that a living replica has is in use, also beside replicas that died long ago: that is told at once.
func TestJobOfALivingReplicaIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &items{kept: map[string]casstore.Record{}}
		b.dies(t, haveJob)
		time.Sleep(time.Hour)
		b.lives(t, haveJob)
		b.lives(t, func(c *soloist.Client) {
			begun := time.Now()
			if err := c.Admin().Forget(t.Context(), "job"); !errors.Is(err, soloist.ErrInUse) || time.Since(begun) > 0 {
				t.Errorf("after %v: %v; want that it is in use", time.Since(begun), err)
			}
		})
	})
}
