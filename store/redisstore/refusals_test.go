package redisstore_test

import (
	"errors"
	"fmt"
	"io/fs"
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
