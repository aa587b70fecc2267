package redisstore

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// What a server has refused, or what was never sent, has surely had no effect; but not by a client that repeats requests by itself, as one of a cluster that follows redirections: its
// error is that of the last attempt, and one before may have been carried out.
func TestNothingIsSureOfAClientThatRepeats(t *testing.T) {
	for _, single := range []bool{true, false} {
		s := &Store{single: single}
		s.ctx, s.cancel = context.WithCancel(t.Context())
		known := map[string]error{
			"no connection was free": redis.ErrPoolTimeout, "the client is closed": redis.ErrClosed,
			"no connection was made": &net.OpError{Op: "dial", Err: errors.New("refused")},
			"no database":            scriptError("ERR DB index is out of range"),
			"an unknown command":     scriptError("ERR unknown command 'EVALSHA'"),
		}
		for word := range refusals {
			known[word] = scriptError(word + " for some reason")
		}
		for what, err := range known {
			if _, sure := s.classify(err); sure != single {
				t.Errorf("%s: sure %t of a client that repeats nothing: %t", what, sure, single)
			}
		}
		for what, err := range map[string]error{"a connection that broke": &net.OpError{Op: "read", Err: errors.New("reset")}, "an error that nobody has heard of": scriptError("ERR what")} {
			if _, sure := s.classify(err); sure {
				t.Errorf("%s: sure", what)
			}
		}
		if _, sure := s.classify(store.ErrClosed); !sure {
			t.Error("not sure that a closed store has sent nothing")
		}
		s.cancel()
	}
}

// What a person has to mend is told as a right that is missing, or as a server that is of no use, and with what mends
// it.
func TestRefusalsThatAPersonMends(t *testing.T) {
	s := &Store{single: true, cfg: Config{Prefix: "p"}}
	const permission, unusable, neither = "permission", "unusable", ""
	for text, c := range map[string]struct {
		is   string
		sure bool
		says string
	}{
		"MOVED 1 h:1": {unusable, true, "redis+cluster:"},
		"CROSSSLOT Keys in request don't hash to the same slot":         {unusable, true, "redis+cluster:"},
		"ERR unknown command 'EVALSHA'":                                 {unusable, true, "rename-command"},
		"ERR Unknown Redis command called from script":                  {unusable, false, "rename-command"},
		"ERR DB index is out of range":                                  {unusable, true, "databases"},
		"NOAUTH Authentication required.":                               {permission, true, "give a user"},
		"ERR Protocol error: unauthenticated bulk length":               {permission, true, "give a user"},
		"WRONGPASS invalid username-password pair or user is disabled.": {permission, true, "is wrong"},
		"NOPERM User u has no permissions to run the 'evalsha' command": {permission, true, "ACL"},
		"WRONGTYPE Operation against a key holding the wrong kind":      {neither, false, "{p:N}:names"},
		"OOM command not allowed when used memory > 'maxmemory'.":       {neither, true, "maxmemory"},
		"READONLY You can't write against a read only replica.":         {neither, true, "primary"},
		"ASK 1 h:1":   {neither, true, ""},
		"ERR unknown": {neither, false, ""},
	} {
		err, sure := s.refused(scriptError(text))
		for what, is := range map[string]error{permission: fs.ErrPermission, unusable: store.ErrUnusable} {
			if errors.Is(err, is) != (c.is == what) {
				t.Errorf("%q: %s is %t", text, what, errors.Is(err, is))
			}
		}
		told := strings.Contains(err.Error(), text) && strings.Contains(err.Error(), c.says)
		if sure != c.sure || !told || !errors.As(err, new(redis.Error)) {
			t.Errorf("%q: %v, sure %t; want %q in it, sure %t", text, err, sure, c.says, c.sure)
		}
	}
}
