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
// begun before last longer than was asked for. It looks at every record, so that the verbs need not note the latest grant.
func (s *Store) setBack(ctx context.Context) []store.Finding {
	now, err := ask(ctx, s, func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() })
	latest := int64(0)
	for i := range s.parts {
		text, wrong := ask(ctx, s, func(ctx context.Context) (string, error) { return s.client.Get(ctx, s.parts[i].floor).Result() })
		if errors.Is(wrong, redis.Nil) {
			continue // nothing was forgotten here yet
		}
		floor, malformed := strconv.ParseInt(text, 10, 64)
		if err = errors.Join(err, wrong); wrong == nil {
			err = errors.Join(err, malformed)
		}
		latest = max(latest, floor)
	}
	for r, wrong := range s.listOwn(ctx, "", "") {
		latest, err = max(latest, r.Token), errors.Join(err, wrong)
	}
	if err != nil {
		return []store.Finding{found("clock set back", err.Error(), store.LevelUnknown, "let the user call GET and TIME, and repair the keys that are named")}
	}
	by := time.UnixMicro(latest).Sub(now)
	if by <= time.Second {
		return nil
	}
	return []store.Finding{found("clock set back", fmt.Sprintf("the server's clock is %v behind its latest grant", by.Round(time.Millisecond)), store.LevelError,
		"leases that were taken before last so much longer than was asked for: release by hand what cannot wait, and let the clock be slewed, not set")}
}
