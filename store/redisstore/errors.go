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
	"NOPERM":      "the user lacks a right: see docs/stores/redis.md for the ACL",
}

// classify makes our error of the client's, and reports whether the request surely had no effect. Errors of go-redis have no secrets in them.
//
// A client that repeats requests by itself tells the error of the last attempt only: then nothing is sure, for an attempt before may have
// been carried out and its answer lost.
func (s *Store) classify(err error) (explained error, sure bool) {
	if err == nil {
		return nil, true
	}
	var refused redis.Error
	var dial *net.OpError
	var bad *malformedError
	switch {
	case errors.As(err, &bad):
		return err, false
	case errors.Is(err, store.ErrClosed):
		return err, true
	case errors.Is(err, redis.ErrClosed) && s.ctx.Err() != nil:
		return store.ErrClosed, s.single
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("redisstore: the client is closed: %w", err), s.single
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("redisstore: no connection of the pool was free: %w", err), s.single
	case errors.As(err, &refused):
		return s.refused(refused)
	}
	return fmt.Errorf("redisstore: %w", err), s.single && errors.As(err, &dial) && dial.Op == "dial" // then it was never sent
}

// overdue adds to a timeout that the context of its request has ended, if it has: a connection reports the timeout only.
func overdue(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		return err
	}
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && !time.Now().Before(deadline) { // the context's timer may be later than the connection's
		ended = context.DeadlineExceeded
	}
	if ended == nil || errors.Is(err, ended) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ended)
}

// lacking is how to mend a command that the server does not know.
const lacking = "Redis 5 or newer is needed, and the commands of docs/stores/redis.md under their own names, without rename-command"

// refused is classify for what the server has answered.
func (s *Store) refused(err redis.Error) (error, bool) {
	text := err.Error()
	word, _, _ := strings.Cut(text, " ")
	fix, sure := refusals[word]
	unusable := word == "MOVED" || word == "CROSSSLOT"
	if !sure && strings.Contains(text, "unknown command") {
		fix, sure, unusable = lacking, true, true
	}
	switch {
	case strings.Contains(text, "unauthenticated"): // Redis's word for a long request before a password
		word, fix, sure = "NOAUTH", refusals["NOAUTH"], true
	case strings.Contains(text, "The user executing the script"), // of Redis 7.0
		strings.Contains(text, "ACL failure in script"): // of later ones, and of Valkey; some commands of the script have been carried out
		word, fix, sure = "NOPERM", refusals["NOPERM"], false
	case word == "NOPERM" && strings.Contains(text, "@user_script"):
		sure = false
	case strings.Contains(text, "WRONGTYPE"): // a record's own key is a CorruptError
		key := "{" + s.cfg.Prefix + ":N}:"
		fix, sure = fmt.Sprintf("something else has written one of the keys %[1]snames and %[1]sdue, which are sorted sets, or %[1]sfloor and %[1]swatched, which are strings: "+
			"TYPE tells which, and DEL mends it, though lists and sweeps pass by the names that were in it", key), false
	case strings.Contains(text, "command called from"): // a script has called one that is unknown, perhaps after others
		fix, unusable = lacking, true
	case strings.HasPrefix(text, "ERR DB index"):
		fix, sure, unusable = "see the setting databases of the server", true, true
	}
	explained := fmt.Errorf("redisstore: %w", error(err))
	if fix != "" {
		explained = fmt.Errorf("%w; %s", explained, fix)
	}
	switch {
	case word == "NOAUTH" || word == "WRONGPASS" || word == "NOPERM":
		explained = also{explained, fs.ErrPermission}
	case unusable:
		explained = also{explained, store.ErrUnusable}
	}
	return explained, sure && s.single
}

// also is an error that is another one too, and says what it says.
type also struct {
	error
	is error
}

func (a also) Is(target error) bool { return errors.Is(a.is, target) }

func (a also) Unwrap() error { return a.error }

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
