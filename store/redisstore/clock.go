package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// setBack finds a server's clock that was set back: the tokens, which are its microseconds, are then ahead of it. Leases and lingers that were
// begun before last longer than was asked for.
func (s *Store) setBack(ctx context.Context) []store.Finding {
	var findings []store.Finding
	by := time.Duration(0)
	for i := range s.parts {
		text, err := ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.Get(ctx, s.parts[i].counter).Result() })
		if errors.Is(err, redis.Nil) {
			continue // nothing was granted here yet
		}
		token, wrong := strconv.ParseInt(text, 10, 64)
		now, err2 := ask(ctx, s, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
		if err = errors.Join(err, wrong, err2); err != nil {
			return append(findings, found("clock set back", err.Error(), store.LevelUnknown, "let the user call GET and TIME"))
		}
		by = max(by, time.UnixMicro(token).Sub(now))
	}
	if by > time.Second {
		findings = append(findings, found("clock set back", fmt.Sprintf("the server's clock is %v behind its latest grant", by.Round(time.Millisecond)), store.LevelError,
			"leases that were taken before last so much longer than was asked for: release by hand what cannot wait, and let the clock be slewed, not set"))
	}
	return findings
}
