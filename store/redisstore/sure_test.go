package redisstore

import (
	"context"
	"errors"
	"net"
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
