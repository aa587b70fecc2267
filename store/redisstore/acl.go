package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// commands are what a user needs the right to, besides those of the connection (AUTH, HELLO, SELECT), which everybody has.
var commands = []string{
	"eval", "evalsha", "time", "ping", "publish", "subscribe", "unsubscribe", "pubsub|numsub",
	"get", "mget", "set", "mset", "del", "persist", "hget", "hset", "hdel",
	"hvals", "zadd", "zrem", "zrangebylex", "zrangebyscore",
}

// Commands that are needed besides when locks are shared with other libraries, or replicas are waited for.
var (
	shareCommands    = []string{"exists", "pttl", "pexpire", "scan"}
	redissonCommands = []string{"exists", "hexists", "hkeys", "pttl", "pexpire", "incr", "scan", "hlen"}
	waitCommands     = []string{"wait"}
)

// aclLine gives a user the least rights with which a store with the default prefix works. What begins with info is for Capabilities and
// Examine. It is documented in docs/stores/redis.md.
const aclLine = "ACL SETUSER soloist on >PASSWORD ~{soloist:* &{soloist:* " +
	"+eval +evalsha +time +ping +publish +subscribe +unsubscribe +pubsub|numsub " +
	"+get +mget +set +mset +del +persist +hget +hset +hdel +hvals +zadd +zrem +zrangebylex +zrangebyscore " +
	"+info +config|get +acl|whoami +acl|dryrun"

// privileges asks for the user's rights, command by command, where the server can tell them (Redis 7).
func (s *Store) privileges(ctx context.Context) store.Finding {
	user, err := s.text(ctx, "ACL", "WHOAMI")
	if err != nil {
		return found("privileges", "the server does not tell who this is", store.LevelUnknown, "see docs/stores/redis.md for the rights that are needed")
	}
	needed := slices.Clone(commands)
	if s.cfg.Share != "" {
		needed = append(needed, shareCommands...)
	}
	if s.cfg.Redisson {
		needed = append(needed, redissonCommands...)
	}
	if s.cfg.Wait > 0 {
		needed = append(needed, waitCommands...)
	}
	var lacking []string
	for _, command := range needed {
		ask := []any{"ACL", "DRYRUN", user}
		for word := range strings.SplitSeq(command, "|") {
			ask = append(ask, word)
		}
		answer, err := s.text(ctx, append(ask, dryArgs(command, &s.parts[0])...)...)
		if err != nil {
			return found("privileges", "user "+user+"; ACL DRYRUN is denied or not known", store.LevelUnknown, "see docs/stores/redis.md for the rights that are needed")
		}
		if answer != "OK" {
			lacking = append(lacking, command)
		}
	}
	if len(lacking) > 0 {
		return found("privileges", "user "+user+" may not "+strings.Join(lacking, ", "), store.LevelError,
			fmt.Sprintf("ACL SETUSER %s +%s ~{%s:* &{%s:*", user, strings.Join(lacking, " +"), s.cfg.Prefix, s.cfg.Prefix))
	}
	return found("privileges", "user "+user+" has all that is needed", store.LevelOK, "")
}

// text asks for something that is answered with a text.
func (s *Store) text(ctx context.Context, command ...any) (string, error) {
	return ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.Do(ctx, command...).Text() })
}

// dryArgs are arguments with which a command could be called.
func dryArgs(command string, b *bucket) []any {
	switch command {
	case "eval", "evalsha":
		return []any{"x", "1", b.floor}
	case "get", "mget", "del", "exists", "pttl", "persist", "hkeys", "hvals", "incr", "hlen":
		return []any{b.floor}
	case "set", "mset", "hget", "zrem", "pexpire", "hexists", "hdel":
		return []any{b.floor, "x"}
	case "hset", "zadd":
		return []any{b.floor, "1", "x"}
	case "zrangebylex", "zrangebyscore":
		return []any{b.floor, "-", "+"}
	case "publish":
		return []any{b.channel + "x", ""}
	case "scan":
		return []any{"0"}
	case "wait":
		return []any{"0", "1"}
	case "subscribe", "pubsub|numsub":
		return []any{b.channel + "x"}
	}
	return nil
}
