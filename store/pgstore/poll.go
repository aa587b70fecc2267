package pgstore

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// The poller's intervals: the first after a new watch, and the longest.
const (
	pollFirst = 10 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// A sight is what a release changes about a row.
type sight struct {
	token    int64
	free     bool
	lockedBy string
}

type sightOf struct {
	row string
	sight
}

func scanSight(rows pgx.Rows) (s sightOf, err error) {
	return s, rows.Scan(&s.row, &s.token, &s.free, &s.lockedBy)
}

// poll sees to it that the rows are looked at from how they are now on.
func (h *hub) poll(ctx context.Context, rows []string) error {
	seen, err := h.look(ctx, rows)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return store.ErrClosed
	}
	for _, row := range rows {
		if _, known := h.seen[row]; !known && h.rows[row] != nil {
			h.seen[row] = seen[row]
		}
	}
	if !h.polling {
		h.polling = true
		h.work.Go(h.pollAll)
	}
	select {
	case h.hurry <- struct{}{}:
	default:
	}
	return nil
}

// look returns how rows look; one that is not there looks free.
func (h *hub) look(ctx context.Context, rows []string) (map[string]sight, error) {
	found, err := look(ctx, h.store, h.store.sql.sights, []any{rows}, scanSight)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]sight, len(rows))
	for _, row := range rows {
		seen[row] = sight{free: true}
	}
	for _, s := range found {
		seen[s.row] = s.sight
	}
	return seen, nil
}

// pollAll looks at all watched rows until there are none. What it cannot see because of an error it sees the next time.
func (h *hub) pollAll() {
	for interval := pollFirst; ; interval = min(interval+interval/2, pollLast) {
		interval = h.due(interval)
		rows := h.watched()
		if h.store.ctx.Err() != nil || h.rested(rows) {
			return
		}
		ctx, cancel := context.WithTimeout(h.store.ctx, h.patience) // the connection may be one on which nothing comes any more
		if seen, err := h.look(ctx, rows); err == nil {
			h.compare(seen)
		}
		cancel()
	}
}

// due returns when the next look is: after interval, or sooner if a watch has begun, pollFirst after that. No watch puts the look off that others wait for:
// watches may begin one after the other without end. It returns interval, or pollFirst after a watch.
func (h *hub) due(interval time.Duration) time.Duration {
	at := time.Now().Add(interval)
	for h.store.ctx.Err() == nil && time.Now().Before(at) {
		select {
		case <-time.After(time.Until(at)):
		case <-h.hurry:
			interval = pollFirst
			if soon := time.Now().Add(interval); soon.Before(at) {
				at = soon
			}
		case <-h.store.ctx.Done():
		}
	}
	return interval
}

// rested ends the poller when there is nothing to look at.
func (h *hub) rested(rows []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(rows) == 0 && len(h.rows) == 0 {
		h.polling = false
	}
	return !h.polling
}

func (h *hub) compare(seen map[string]sight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for row, now := range seen {
		before, known := h.seen[row]
		if known && before != now {
			h.wakeLocked(row)
		}
		if known {
			h.seen[row] = now
		}
	}
}
