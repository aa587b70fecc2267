package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// The server is killed in the middle of batches, and no answer that it gave is forgotten.
func TestKilledServer(t *testing.T) {
	server := servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	s := open(t, connect(t, server.URL, nil), Config{})
	const workers, n = 4, 50
	type known struct {
		token, mark int64 // answered
		asked       int64 // the greatest mark that may have been left
	}
	var mu sync.Mutex
	all := map[string]*known{}
	var grants, unknown atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for turn := int64(1); ctx.Err() == nil; turn++ {
				call, cancel := context.WithTimeout(ctx, 5*time.Second)
				holder := fmt.Sprintf("w%d turn %d", w, turn)
				claims := make([]store.Claim, n)
				for i := range claims {
					claims[i] = claim(fmt.Sprintf("w%d/%d", w, i), holder)
					claims[i].TTL = 20 * time.Millisecond
				}
				out, err := s.Acquire(call, claims)
				var releases []store.Release
				mu.Lock()
				for i, o := range out {
					k := all[claims[i].Name]
					if k == nil {
						k = &known{}
						all[claims[i].Name] = k
					}
					if o.Err != nil {
						continue
					}
					grants.Add(1)
					if o.Grant.Token <= k.token || o.Grant.Mark < k.mark || o.Grant.Mark > k.asked {
						t.Errorf("%s: token %d and mark %d, after token %d and mark %d had been answered and %d asked for", claims[i].Name,
							o.Grant.Token, o.Grant.Mark, k.token, k.mark, k.asked)
					}
					k.token, k.asked = o.Grant.Token, turn
					releases = append(releases, store.Release{
						Name: claims[i].Name, Holder: holder, Token: o.Grant.Token, Mark: turn, Retain: store.Forever,
					})
				}
				mu.Unlock()
				if err != nil && errors.Is(err, store.ErrUnknown) {
					unknown.Add(1)
				}
				errs, err := s.Release(call, releases)
				mu.Lock()
				for i, r := range releases {
					if err == nil && errs[i] == nil {
						all[r.Name].mark = turn
					}
				}
				mu.Unlock()
				if err != nil && errors.Is(err, store.ErrUnknown) {
					unknown.Add(1)
				}
				cancel()
			}
		})
	}
	for range 3 {
		before := grants.Load()
		servers.Wait(t, "grants", func() bool { return grants.Load() > before+500 })
		server.Kill()
		server.Start()
	}
	before := grants.Load()
	servers.Wait(t, "grants after the last restart", func() bool { return grants.Load() > before+500 })
	stop()
	group.Wait()
	if unknown.Load() == 0 {
		t.Error("no request was cut off: the test is blind")
	}
	t.Logf("%d grants, %d requests of unknown outcome, 3 kills", grants.Load(), unknown.Load())
}

// A server that does not answer keeps nobody longer than the context, and what was asked is unknown.
func TestPausedServer(t *testing.T) {
	server := servers.MariaDB(t, "--performance-schema=OFF")
	s := open(t, connect(t, server.URL, nil), Config{})
	g := take(t, s, "x", "a")
	for within := 300 * time.Millisecond; ; within *= 10 { // a slow machine may not have sent it by then
		server.Pause()
		ctx, cancel := context.WithTimeout(context.Background(), within)
		_, err := s.Extend(ctx, []store.Extension{{Name: "x", Holder: "a", Token: g.Token, TTL: time.Hour}})
		cancel()
		server.Resume()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("not answered for %v: %v", within, err)
		}
		if errors.Is(err, store.ErrUnknown) {
			break
		}
		if within > servers.Patience {
			t.Fatalf("sent and not answered: %v", err)
		}
	}
	errs, err := s.Extend(context.Background(), []store.Extension{{Name: "x", Holder: "a", Token: g.Token, TTL: time.Hour}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Error(err)
	}
}

// Batches in any order, of names old and new, at the same time from several handles, with sweeps: all get their answers.
func TestNoDeadlocks(t *testing.T) {
	for _, m := range modes[:3] {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
			defer stop()
			var group sync.WaitGroup
			var calls atomic.Int64
			for w := range 8 {
				group.Go(func() {
					for turn := 0; ctx.Err() == nil; turn++ {
						holder := fmt.Sprintf("w%d turn %d", w, turn)
						var claims []store.Claim
						for i := range 40 {
							claims = append(claims, claim(fmt.Sprintf("n%d", (i*(2*w+1)+turn)%97), holder))
						}
						out, err := s.Acquire(context.Background(), claims)
						if err != nil {
							t.Error(err)
							return
						}
						var releases []store.Release
						for i, o := range out {
							if o.Err == nil {
								releases = append(releases, store.Release{Name: claims[i].Name, Holder: holder, Token: o.Grant.Token})
							}
						}
						for end := time.Now().Add(servers.Patience); len(releases) > 0; {
							errs, err := s.Release(context.Background(), releases)
							if err != nil {
								t.Error(err)
								return
							}
							var left []store.Release
							for i, err := range errs {
								if errors.Is(err, store.ErrUnknown) && time.Now().Before(end) {
									left = append(left, releases[i]) // somebody has kept the row locked
								} else if err != nil && !errors.Is(err, store.ErrLost) { // a repeat, and somebody has it since
									t.Error(err)
								}
							}
							releases = left
						}
						if turn%5 == 0 {
							if _, err := s.Sweep(context.Background(), 50); err != nil {
								t.Error(err)
								return
							}
						}
						calls.Add(1)
					}
				})
			}
			group.Wait()
			t.Logf("%d batches", calls.Load())
		})
	}
}

// Processes that increment a plain number under a lock do not lose an increment, be their sessions as they may.
func TestProcesses(t *testing.T) {
	if spec := os.Getenv("SOLOIST_TEST_INCREMENT"); spec != "" {
		increment(t, spec)
		return
	}
	const processes, times = 4, 60
	admin := connect(t, mariadb(t).URL, nil)
	s := open(t, admin, Config{})
	file := t.TempDir() + "/number"
	if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range processes {
		group.Go(func() {
			cmd := osexec.Command(os.Args[0], "-test.run=^TestProcesses$", "-test.count=1")
			spec := strings.Join([]string{mariadb(t).URL + "?table=" + s.cfg.Table, file, strconv.Itoa(times)}, "\n")
			cmd.Env = append(os.Environ(), "SOLOIST_TEST_INCREMENT="+spec)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	group.Wait()
	if number, err := os.ReadFile(file); err != nil || string(number) != strconv.Itoa(processes*times) {
		t.Errorf("the number is %s, %v; want %d", number, err, processes*times)
	}
}

// increment is what each process does.
func increment(t *testing.T, spec string) {
	part := strings.Split(spec, "\n")
	times, _ := strconv.Atoi(part[2])
	ctx := context.Background()
	s, err := OpenURL(ctx, part[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range times {
		err := client.With(soloist.Options{Wait: -1}).Do(ctx, "number", func(context.Context, *soloist.Lease) error {
			text, err := os.ReadFile(part[1])
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(string(text))
			if err != nil {
				return err
			}
			return os.WriteFile(part[1], []byte(strconv.Itoa(number+1)), 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
