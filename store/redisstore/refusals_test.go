package redisstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// Each claim of a batch that is refused is told who has its own name, also when several are refused alike and the script says that only once.
func TestRefusalsOfABatchAreEachTheirOwn(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	const names = 3
	var claims []store.Claim
	for i := range names {
		take(t, s, fmt.Sprint("name", i), fmt.Sprint("holder", i))
	}
	for round := range 3 {
		for i := range names {
			claims = append(claims, store.Claim{Name: fmt.Sprint("name", i), Holder: fmt.Sprint("late", round), TTL: time.Minute, Mark: int64(round % 2)})
		}
	}
	outs, err := s.Acquire(background, claims)
	must(t, err)
	for n, out := range outs {
		var held *store.HeldError
		if !errors.As(out.Err, &held) || held.Record.Name != claims[n].Name || held.Record.Holder != fmt.Sprint("holder", n%names) || held.Record.Left <= 0 {
			t.Errorf("claim %d, of %q: %v", n, claims[n].Name, out.Err)
		}
	}
}

// What servers of several versions answer, and whether the script can have changed something before.
func TestRefusalsInTheWordsOfServers(t *testing.T) {
	server := shared(t)
	p := newLiar(t, server.Addr)
	s := open(t, fresh(t, p.url()))
	must(t, tried(background, s, "name", "a"))
	for _, c := range []struct {
		answer              string
		unknown, permission bool
	}{
		{"NOPERM User u has no permissions to run the 'evalsha' command", false, true},
		{"NOPERM User u has no permissions to run the 'set' command script: f0, on @user_script:7.", true, true},
		{"ERR The user executing the script can't run this command or subcommand script: f0, on @user_script:7.", true, true},
		{"ERR ACL failure in script: User u has no permissions to run the 'set' command script: f0, on @user_script:7.", true, true},
		{"READONLY You can't write against a read only replica.", false, false},
		{"MISCONF Redis is configured to save RDB snapshots", false, false},
		{"LOADING Redis is loading the dataset in memory", false, false},
		{"BUSY Redis is busy running a script", false, false},
		{"ERR something that nobody has heard of", true, false},
	} {
		p.lying(func(*resp) []*resp { return []*resp{{raw: "-" + c.answer + "\r\n"}} })
		if err := tried(background, s, "name", "b"); err == nil || isUnknown(err) != c.unknown || errors.Is(err, fs.ErrPermission) != c.permission {
			t.Errorf("%q: %v; want unknown %t, permission %t", c.answer, err, c.unknown, c.permission)
		}
	}
}

// What is too much for one script goes into several, and what becomes of one of them is told of its names alone: the others were granted, extended and released.
func TestOneScriptOfALargeBatchFails(t *testing.T) {
	const names, first = 1500, 1024 // so many are in the first
	server := shared(t)
	p := newLiar(t, server.Addr)
	s := open(t, fresh(t, p.url()))
	for _, answer := range []string{"", "OOM command not allowed when used memory > 'maxmemory'.", "ERR something that nobody has heard of"} {
		claims, extensions, releases := make([]store.Claim, names), make([]store.Extension, names), make([]store.Release, names)
		for i := range names {
			claims[i] = store.Claim{Name: fmt.Sprint(len(answer), "/n", i), Holder: "h", TTL: time.Hour}
		}
		lie := func() {
			n := 0
			p.lying(func(v *resp) []*resp {
				if script := tagBegins.MatchString(v.text) || v.kind == '*' && len(v.of) == 2 && tagBegins.MatchString(v.of[0].text); !script {
					return []*resp{v}
				}
				if n++; n == 2 && answer != "" {
					return []*resp{{raw: "-" + answer + "\r\n"}}
				}
				return []*resp{v}
			})
		}
		check := func(what string, errs []error, err error) {
			t.Helper()
			must(t, err)
			for i, err := range errs {
				switch {
				case i < first || answer == "":
					if err != nil {
						t.Fatalf("%q, %s of name %d: %v, want none", answer, what, i, err)
					}
				case err == nil || isUnknown(err) != strings.HasPrefix(answer, "ERR"):
					t.Fatalf("%q, %s of name %d: %v, want the server's answer", answer, what, i, err)
				}
			}
		}
		_, err := s.Acquire(background, claims) // the server knows the scripts then
		must(t, err)
		lie()
		outs, err := s.Acquire(background, claims)
		errs := make([]error, len(outs))
		for i, out := range outs {
			errs[i] = out.Err
			extensions[i] = store.Extension{Name: claims[i].Name, Holder: "h", Token: max(1, out.Grant.Token), TTL: time.Hour}
			releases[i] = store.Release{Name: claims[i].Name, Holder: "h", Token: max(1, out.Grant.Token)}
		}
		check("the claim", errs, err)
		p.lying(nil)
		_, err = s.Extend(background, extensions)
		must(t, err)
		lie()
		errs, err = s.Extend(background, extensions)
		check("the extension", errs, err)
		lie()
		errs, err = s.Release(background, releases)
		check("the release", errs, err)
		p.lying(nil)
	}
}

var tagBegins = regexp.MustCompile(`^[A-Z2-7]{12}-`)

// A command that rename-command has taken away is named, with what mends it.
func TestCommandsThatAreRenamed(t *testing.T) {
	for _, command := range []string{"EVALSHA", "EVAL", "TIME", "ZADD"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := open(t, servers.Redis(t, "--rename-command", command, "").URL)
			outs, err := s.Acquire(background, []store.Claim{{Name: "a", Holder: "h", TTL: time.Minute}})
			if err == nil {
				err = outs[0].Err
			}
			if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "rename-command") {
				t.Errorf("%v; want ErrUnusable, and what mends it", err)
			}
			if unsure := errors.Is(err, store.ErrUnknown); unsure != (command == "TIME" || command == "ZADD") {
				t.Errorf("%v: unknown is %t", err, unsure)
			}
		})
	}
}

// The longest refusal of the server is longer than any name or holder. It reaches the caller whole, and nothing has happened.
func TestServerThatCannotWriteItsDisk(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	dir, err := admin.ConfigGet(background, "dir").Result()
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir["dir"], "dump.rdb"), 0o700)) // in the way
	must(t, errors.Join(admin.ConfigSet(background, "save", "3600 1").Err(), admin.BgSave(background).Err()))
	servers.Wait(t, "a save that fails", func() bool {
		return strings.Contains(admin.Info(background, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	s := open(t, server.URL)
	_, _, err = s.Queue(background, store.Claim{Name: "x", Holder: "a", TTL: time.Minute})
	if err == nil || isUnknown(err) || !strings.Contains(err.Error(), "MISCONF") || !strings.Contains(err.Error(), "see its log") {
		t.Errorf("got %v; want that the server cannot write to its disk, and that nothing has happened", err)
	}
}
