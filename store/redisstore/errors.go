package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// refusals are the errors, by their first word, with which a server refuses a script before it has changed anything, and what to do about
// those that somebody can do something about.
var refusals = map[string]string{
	"NOSCRIPT":    "",
	"MOVED":       "the server is part of a cluster: use a cluster client, or a URL that begins with redis+cluster:",
	"ASK":         "",
	"TRYAGAIN":    "",
	"CROSSSLOT":   "the server is part of a cluster: use a cluster client, or a URL that begins with redis+cluster:",
	"CLUSTERDOWN": "",
	"READONLY":    "the server is a replica: connect to the primary, or use Sentinel or a cluster",
	"MASTERDOWN":  "",
	"LOADING":     "",
	"BUSY":        "a script of somebody's has run for too long: see SCRIPT KILL",
	"NOREPLICAS":  "fewer replicas are connected than min-replicas-to-write asks for",
	"MISCONF":     "the server cannot write to its disk: see its log",
	"OOM":         "the server's memory is full: raise maxmemory or remove what is not needed, and keep maxmemory-policy noeviction",
	"NOAUTH":      "give a user and a password",
	"WRONGPASS":   "the user or the password is wrong",
	"NOPERM":      "the user lacks a right: see docs/redis.md for the ACL",
}

// explain makes our error of the client's: one that is store.ErrUnknown, unless the request surely had no effect. Errors of go-redis have no
// secrets in them.
func (s *Store) explain(err error) error {
	var refused redis.Error
	var dial *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("redisstore: the client is closed: %w", err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("redisstore: no connection of the pool was free: %w", err)
	case errors.As(err, &refused):
		word, _, _ := strings.Cut(err.Error(), " ")
		mend, sure := refusals[word]
		if !sure && strings.Contains(err.Error(), "unknown command") {
			mend, sure = "Redis 5 or newer is needed", true
		}
		err = fmt.Errorf("redisstore: %w", err)
		if mend != "" {
			err = fmt.Errorf("%w; %s", err, mend)
		}
		if word == "NOAUTH" || word == "WRONGPASS" || word == "NOPERM" {
			err = &denied{err}
		}
		if sure {
			return err
		}
	case s.single && errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("redisstore: %w", err) // never sent
	default:
		err = fmt.Errorf("redisstore: %w", err)
	}
	return store.AsUnknown(err)
}

// denied is an error that is also fs.ErrPermission.
type denied struct{ error }

func (d *denied) Unwrap() error { return d.error }

// Is makes errors.Is(e, fs.ErrPermission) true.
func (d *denied) Is(target error) bool { return target == fs.ErrPermission }

// refresh has a cluster's client look at the cluster anew when a node could not be reached: by itself it goes on to ask the one that is
// gone until its next regular look.
func (s *Store) refresh(ctx context.Context, answers []answered) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok || ctx.Err() != nil {
		return
	}
	for _, a := range answers {
		var refused redis.Error
		if a.err != nil && (!errors.As(a.err, &refused) || strings.Contains(a.err.Error(), "CLUSTERDOWN")) {
			bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			cluster.ReloadState(bound)
			return
		}
	}
}
