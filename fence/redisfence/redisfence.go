// Package redisfence guards what is written in Redis or Valkey: a key remembers the greatest fencing token of each resource, and lower ones
// are refused in the same atomic step as the write.
//
//	guard, err := redisfence.New(client, redisfence.Config{})
//	…
//	err = guard.DoTx(ctx, "{ledger}", lease.Token(), func(tx redis.Pipeliner) error {
//		return tx.IncrBy(ctx, "{ledger}:balance", 100).Err()
//	})
//
// A key with a token never expires. It is as safe as the server that keeps it: if it is lost, by a failover or an
// eviction, stale tokens pass until the next claim. In a cluster it must be in the same slot as the keys of the write:
// give the resource their hash tag, as above.
package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/store"

	"github.com/redis/go-redis/v9"
)

//go:embed write.lua
var guardText string

// A Config configures where the tokens are kept.
type Config struct {
	Prefix string // of the keys, before the name of the resource; the default is "soloist-fence:"
}

// A Guard is a fence.Guard that keeps its tokens in Redis. It is safe for concurrent use.
type Guard struct {
	client redis.UniversalClient
	once   bool // the client sends a request at most once
	prefix string
}

var _ fence.Guard = (*Guard)(nil)

// New returns a guard on a client. The caller must close the client.
//
// A client of go-redis repeats requests (MaxRetries of a Client is 3 by default, and MaxRedirects of a ClusterClient), and so runs the lua of Write twice if the
// reply to the first was lost. Set MaxRetries to -1, and with a ClusterClient MaxRedirects too (it then follows no redirection), or write only what may be
// repeated. DoTx does not run a transaction twice. A request ends with its context if the client has ContextTimeoutEnabled; otherwise its
// ReadTimeout and WriteTimeout bound it.
func New(client redis.UniversalClient, cfg Config) (*Guard, error) {
	once := false
	switch c := client.(type) {
	case nil:
		return nil, errors.New("redisfence: the client is nil: give an open redis.UniversalClient")
	case *redis.Ring:
		return nil, errors.New("redisfence: the client is a redis.Ring, which can forget a key when its servers change: give a client of one server or of a cluster")
	case *redis.Client:
		once = c.Options().MaxRetries <= 0
	case *redis.ClusterClient:
		once = c.Options().MaxRetries <= 0 && c.Options().MaxRedirects <= 0
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "soloist-fence:"
	}
	return &Guard{client, once, cfg.Prefix}, nil
}

// Claim implements fence.Guard.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	_, err := g.Write(ctx, resource, token, "", nil)
	return err
}

// DoTx claims the resource, calls write, and runs the commands that write has added to the transaction (MULTI, EXEC) in one atomic step, unless
// the guard has seen a greater token by then: no command is run in that case, and the error is a *fence.StaleError. If write returns an error, DoTx
// returns it and runs no command. Results of commands can be read after DoTx has returned nil.
//
// An error that is store.ErrUnknown means that the commands may have been run. A command that fails while the transaction is carried out, as
// for a key of another type, does not keep Redis from running the others: the error is then store.ErrUnknown, and the command's own. A script must be queued
// by its text (EVAL): by its hash (EVALSHA, redis.Script.Run) it fails so if the server has not cached it, as after a restart.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(redis.Pipeliner) error) error {
	if err := g.Claim(ctx, resource, token); err != nil {
		return err
	}
	return g.client.Watch(ctx, func(tx *redis.Tx) error {
		if err := g.check(ctx, tx, resource, token); err != nil {
			return err
		}
		pipe := tx.TxPipeline()
		if err := write(pipe); err != nil {
			return err
		}
		return g.execute(ctx, pipe, resource, token)
	}, g.prefix+resource)
}

// check returns an error if the guard has seen a greater token since this one was claimed.
func (g *Guard) check(ctx context.Context, tx *redis.Tx, resource string, token int64) error {
	seen, err := tx.Get(ctx, g.prefix+resource).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("writing to %q: its key %q is gone: claim it again", resource, g.prefix+resource)
	case err != nil:
		return fmt.Errorf("asking the guard of %q: %w", resource, err)
	}
	last, err := g.token(resource, seen)
	if err == nil && last > token {
		err = &fence.StaleError{Resource: resource, Token: token, Seen: last}
	}
	return err
}

// execute runs the commands of the transaction, unless the key of the resource has changed since check.
func (g *Guard) execute(ctx context.Context, pipe redis.Pipeliner, resource string, token int64) error {
	last := pipe.Get(ctx, g.prefix+resource) // it has a result if EXEC was carried out, whatever became of the other commands
	cmds, err := pipe.Exec(ctx)
	if errors.Is(err, redis.Nil) {
		err = failure(cmds) // Exec returns the first error only, and that is no failure
	}
	switch {
	case err == nil:
		return nil
	case last.Val() != "":
		return store.AsUnknown(fmt.Errorf("writing to %q: %w", resource, err))
	case errors.Is(err, redis.TxFailedErr):
		if err := g.Claim(ctx, resource, token); err != nil {
			return err // usually a *fence.StaleError
		}
		return fmt.Errorf("writing to %q: its key %q was changed by something else than a guard; nothing was written", resource, g.prefix+resource)
	}
	return unsure(resource, err)
}

// failure returns the first error of a command, other than redis.Nil, which is the result of a command for a missing key.
func failure(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// Do implements fence.Guard, with the commands of write in one transaction, as in DoTx. In write, Tx returns the
// transaction. Other tokens do not wait while write runs: what it does in another way than by the transaction is not
// guarded, and can land after a write of a greater token. Do then returns a *fence.StaleError, too late.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx redis.Pipeliner) error { return write(context.WithValue(ctx, key{}, tx)) })
}

type key struct{}

// Tx returns the transaction of Do from the context of its write; nil elsewhere.
func Tx(ctx context.Context) redis.Pipeliner {
	tx, _ := ctx.Value(key{}).(redis.Pipeliner)
	return tx
}

// Write runs lua in the server, in one atomic step with the comparison of the token, for writes that have to read first. If the token is lower
// than one seen before for the resource, lua is not run and the error is a *fence.StaleError. lua finds keys in KEYS and args in ARGV, and
// its result is returned, as with EVAL. The token counts as seen even if lua fails.
//
// An error that is store.ErrUnknown means that lua may have been run, in part too. With a client that repeats requests (see New) every error of
// the server is that, also a *fence.StaleError: lua may have been run by an attempt before the last. Only one that lua does not compile is certain.
func (g *Guard) Write(ctx context.Context, resource string, token int64, lua string, keys []string, args ...any) (any, error) {
	if token <= 0 {
		return nil, &fence.TokenError{Token: token}
	}
	if resource == "" {
		return nil, &store.InvalidError{What: "resource", Value: `""`, Rule: "give a name to what is guarded"}
	}
	keys = append([]string{g.prefix + resource}, keys...)
	args = append([]any{token}, args...)
	reply, err := script(lua).Run(ctx, g.client, keys, args...).Slice() // by its hash, or in full if the server has not cached it
	if err != nil {
		err = unsure(resource, err)
	} else {
		var result any
		if result, err = g.read(resource, token, reply); err == nil {
			return result, nil
		}
	}
	if lua != "" && !g.once && !strings.Contains(err.Error(), uncompiled) { // the client tells the last attempt only
		err = store.AsUnknown(err)
	}
	return nil, err
}

func script(lua string) *redis.Script {
	return redis.NewScript(guardText + lua + "\nend\nreturn {'written', write(keys, args)}\n")
}

// read reads the reply of write.lua.
func (g *Guard) read(resource string, token int64, fields []any) (any, error) {
	word := ""
	if len(fields) > 0 {
		word, _ = fields[0].(string)
	}
	switch {
	case word == "stale" && len(fields) == 2:
		text, _ := fields[1].(string)
		seen, err := g.token(resource, text)
		if err != nil {
			return nil, err
		}
		return nil, &fence.StaleError{Resource: resource, Token: token, Seen: seen}
	case word == "written" && len(fields) == 1:
		return nil, nil // lua returned nothing
	case word == "written" && len(fields) == 2:
		if failed, is := fields[1].(error); is {
			return nil, fmt.Errorf("writing to %q: the script returned an error: %w", resource, failed)
		}
		return fields[1], nil
	}
	return nil, store.AsUnknown(fmt.Errorf("writing to %q: the reply of the server is not that of the guard's script", resource))
}

// token reads what is in the key of a resource.
func (g *Guard) token(resource, text string) (int64, error) {
	seen, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("writing to %q: its key %q has %.40q in it, which is no token: something else has written it", resource, g.prefix+resource, text)
	}
	return seen, nil
}

// refusals begin the errors with which a server refuses a script or a transaction before it has changed anything.
var refusals = []string{
	"EXECABORT", "NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING", "BUSY", "NOREPLICAS", "MISCONF",
	"OOM", "NOAUTH", "WRONGPASS",
}

// uncompiled is in the error of a script that does not compile, and so has not been run.
const uncompiled = "Error compiling script"

// unsure makes err a store.ErrUnknown unless the server has refused the write before it has changed anything.
func unsure(resource string, err error) error {
	explained := fmt.Errorf("writing to %q: %w", resource, err)
	var reply redis.Error
	if errors.As(err, &reply) {
		word, _, _ := strings.Cut(reply.Error(), " ")
		for _, refusal := range refusals {
			if word == refusal {
				return explained
			}
		}
		if strings.Contains(reply.Error(), uncompiled) {
			return explained
		}
	}
	return store.AsUnknown(explained)
}
