package redisstore

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A release publishes a message only while a mark in the server says that somebody watches names. A process renews the mark for as long as it
// watches any; the mark of one that has died ends by itself.
const (
	markFor   = time.Minute
	markEvery = 15 * time.Second
)

// mark renews the mark, or makes it. If there was a gap since this process did so last, releases may have been published to nobody: then all who
// watch are woken. The mark's value tells since when there has been none, so that no clock of this process is needed to know.
//
// In a cluster all releases are published, and there is no mark: a failover could lose it, and the subscription, which is on one node, would not notice.
func (s *Store) mark(ctx context.Context) error {
	if len(s.parts) > 1 {
		return nil
	}
	answer := s.do(ctx, []call{{script: s.scripts.watch, keys: []string{s.parts[0].watched}, args: []any{markFor.Milliseconds()}}})[0]
	if answer.err != nil {
		return answer.err
	}
	r := &row{fields: []any{answer.reply}}
	since := r.text("instant of the mark", 64)
	if r.err != nil {
		return store.AsUnknown(r.err)
	}
	s.watches.marked(since)
	return nil
}

// marked notes since when releases have been published without a gap.
func (ws *watches) marked(since string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if gap := ws.since != "" && ws.since != since; gap {
		for _, t := range ws.topics {
			t.wake()
		}
	}
	ws.since = since
}

// remark renews the mark while somebody watches, and at once when the subscription is on another connection, perhaps to another server.
func (ws *watches) remark(ctx context.Context) {
	next := time.NewTimer(ws.every)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ws.moved:
		case <-ctx.Done():
			return
		}
		again := ws.every
		if ws.watching() {
			bound, cancel := context.WithTimeout(ctx, patience)
			if ws.store.mark(bound) != nil {
				again = pauseOfTrouble
			}
			cancel()
		}
		next.Reset(again)
	}
}

// watching reports whether somebody watches names.
func (ws *watches) watching() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, inbox := ws.topics[ws.store.lines.inbox]; inbox {
		return len(ws.topics) > 1
	}
	return len(ws.topics) > 0
}
