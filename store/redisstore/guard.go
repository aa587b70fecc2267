package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/store"
)

//go:embed lua/guard.lua
var guardText string

// A Guard keeps stale holders from data in Redis: it remembers the greatest fencing token that was shown for a resource, and refuses
// smaller ones in the same step with the write. It is safe for use by many goroutines at once.
//
// It is no fence.Guard, because it has no Do: nothing keeps others out of Redis while a function of the client runs. What writes is a script
// in the server, given to Write.
//
// A mark is a key that has no end. It is as safe as the server that keeps it: one that is lost, by a failover or an eviction, lets in
// stale tokens until the next claim.
type Guard struct {
	store  *Store // nothing but its way of asking
	prefix string
}

// NewGuard makes a guard on a client, which stays the caller's. Marks are kept under prefix and the resource; the default prefix is
// "soloist-fence:".
//
// A client of go-redis that repeats requests (MaxRetries, 3 unless it is set) can run a write twice when the reply to the first was lost:
// set MaxRetries to -1, or give Write what can be repeated.
func NewGuard(client redis.UniversalClient, prefix string) (*Guard, error) {
	s, err := New(client, Config{})
	if err != nil {
		return nil, err
	}
	if prefix == "" {
		prefix = "soloist-fence:"
	}
	return &Guard{s, prefix}, nil
}

// Claim advances the mark of a resource without writing: from its return on, lower tokens are refused. It is a new holder's first act. A
// token that is lower than the mark is answered with a *fence.StaleError.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	_, err := g.Write(ctx, resource, token, "", nil)
	return err
}

// Write runs lua in the server, in one step with the comparison of the token: it is not run at all, and the error a *fence.StaleError, if
// the token is lower than one seen before for the resource. lua finds keys in KEYS and args in ARGV, and answers with return, as in EVAL.
// The token counts as seen even if lua fails.
//
// In a cluster the mark has to be in one slot with the keys: let the resource have their hash tag, as "{invoices}" or "{invoices}:2026".
//
// An error that is store.ErrUnknown says that it may have been written. It is the caller's to look, or to write again what can be
// written twice.
func (g *Guard) Write(ctx context.Context, resource string, token int64, lua string, keys []string, args ...any) (any, error) {
	if token <= 0 {
		return nil, &fence.TokenError{Token: token}
	}
	if resource == "" {
		return nil, &store.InvalidError{What: "resource", Value: `""`, Rule: "give a name to what is guarded"}
	}
	script := newGuardScript(lua)
	keys = append([]string{g.prefix + resource}, keys...)
	args = append([]any{token}, args...)
	reply, err := bounded(ctx, g.store, func(ctx context.Context) answered {
		reply, err := script.Run(ctx, g.store.client, keys, args...).Slice() // by name, or whole if the server does not know it
		return answered{reply: reply, err: err}
	})
	if err == nil {
		err = reply.err
	}
	if err != nil {
		explained, sure := g.store.classify(err)
		if !sure && !strings.Contains(err.Error(), "Error compiling script") {
			explained = store.AsUnknown(explained)
		}
		return nil, fmt.Errorf("writing to %q: %w", resource, explained)
	}
	return g.read(resource, token, reply.reply)
}

func newGuardScript(lua string) *redis.Script {
	return redis.NewScript(guardText + lua + "\nend\nreturn {'written', write(keys, args)}\n")
}

// read takes an answer of guard.lua.
func (g *Guard) read(resource string, token int64, reply any) (any, error) {
	fields, _ := reply.([]any)
	word := ""
	if len(fields) > 0 {
		word, _ = fields[0].(string)
	}
	switch {
	case word == "stale" && len(fields) == 2:
		text, _ := fields[1].(string)
		seen, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("writing to %q: its mark %q%s is no token: somebody else has written it", resource, g.prefix, resource)
		}
		return nil, &fence.StaleError{Resource: resource, Token: token, Seen: seen}
	case word == "written" && len(fields) == 1:
		return nil, nil // the write answers nothing
	case word == "written" && len(fields) == 2:
		if failed, is := fields[1].(error); is {
			return nil, fmt.Errorf("writing to %q: the script answered an error: %w", resource, failed)
		}
		return fields[1], nil
	}
	return nil, store.AsUnknown(errors.New("redisstore: the guard's script answered something else than it should"))
}
