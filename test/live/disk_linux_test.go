package live

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// smallDisk puts a disk of that many bytes, as mount reads it, at a directory that it makes.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0755"); err != nil {
		servers.Missing(t, "a small disk cannot be mounted: %v (that takes root)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
}

// fill writes to a file until its disk is full, and returns whether it is.
func fill(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Is(err, syscall.ENOSPC)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		_, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) && len(block) == 4<<10 { // a page
			return true
		} else if err != nil {
			block = block[:4<<10]
		}
	}
}

// A fullDisk is where a store's data is.
type fullDisk struct {
	dir        string
	server     server     // nil where there is none
	complained func() int // how often the server has told of the full disk; nil where there is no server
	press      func()     // makes the server write; nil where clients do enough
}

// filled makes the disk full for a while, again and again; each time the server is started again if it has given up. It counts the times
// when the server has told of it.
func (d *fullDisk) filled(ctx context.Context) map[string]int {
	full := 0
	for wait(ctx, 5**ttl) { // most of the time it is not: a run in which most requests fail is void
		complaints := 0
		if d.complained != nil {
			complaints = d.complained()
		}
		ballast, effective := filepath.Join(d.dir, "ballast"), false
		for end := time.Now().Add(*ttl + *ttl/2); time.Now().Before(end) && wait(ctx, 5*time.Millisecond); {
			effective = fill(ballast) || effective
			if d.press != nil {
				d.press()
			}
		}
		_ = os.Remove(ballast)
		if d.complained != nil {
			effective = effective && d.complained() > complaints
		}
		if d.server != nil && d.server.Ended() != nil {
			d.server.Start()
		}
		if effective {
			full++
		}
	}
	return map[string]int{"disk full": full}
}

// complaints counts what a server's log reports a full disk.
func complaints(log string) func() int {
	return func() int {
		text, _ := os.ReadFile(log)
		return bytes.Count(text, []byte("No space left on device")) + bytes.Count(text, []byte("Short write while writing to the AOF")) // Redis
	}
}

func redisOnSmallDisk(t *testing.T) (string, *fullDisk) {
	dir := filepath.Join(servers.Directory(t), "disk")
	smallDisk(t, dir, "32m")
	s := servers.Redis(t, append(durableRedis, "--dir", dir, "--auto-aof-rewrite-min-size", "4mb")...)
	return s.URL, &fullDisk{dir: dir, server: s, complained: complaints(s.LogFile())}
}

func postgresOnSmallDisk(t *testing.T) (string, *fullDisk) {
	s := servers.Postgres(t, smallPostgres...)
	migrate(t, s.URL)
	s.Stop()
	data := filepath.Join(filepath.Dir(s.LogFile()), "data")
	must(t, os.Rename(data, data+".big"))
	smallDisk(t, data, "200m")
	t.Cleanup(s.Kill) // before that
	if out, err := exec.Command("cp", "-a", data+".big/.", data).CombinedOutput(); err != nil {
		t.Fatalf("copying the data to the small disk: %v\n%s", err, out)
	}
	must(t, os.RemoveAll(data+".big"))
	s.Start()
	return s.URL, &fullDisk{dir: data, server: s, complained: complaints(s.LogFile()), press: func() {
		// It needs a new segment of its log the sooner; an answer is not to be had.
		ctx, cancel := context.WithTimeout(context.Background(), *ttl)
		defer cancel()
		_ = exec.CommandContext(ctx, "psql", "-AtX", "-c", "SELECT pg_switch_wal()", s.URL).Run()
	}}
}

// A disk that is full makes errors, and no more than that.
func TestFullDisk(t *testing.T) {
	servers.Long(t)
	for name, start := range map[string]func(*testing.T) (string, *fullDisk){
		"Redis":      redisOnSmallDisk,
		"PostgreSQL": postgresOnSmallDisk,
		"SQLite": func(t *testing.T) (string, *fullDisk) {
			dir := filepath.Join(servers.Directory(t), "disk")
			smallDisk(t, dir, "32m")
			return "sqlite:" + filepath.Join(dir, "store.db"), &fullDisk{dir: dir}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := mustHold(t, func(t *testing.T) (run, func() []string) {
				url, disk := start(t)
				times := 0
				return run{url: url, span: *span, ttl: *ttl, faults: "kill,pause", meanwhile: func(ctx context.Context) map[string]int {
						filled := disk.filled(ctx)
						times += filled["disk full"]
						return filled
					}}, func() []string {
						if times == 0 {
							return []string{"disk full"}
						}
						return nil
					}
			})
			if v.Figures.Errors+v.Checked.Unknowns == 0 {
				t.Error("the clients were told of nothing")
			}
		})
	}
}
