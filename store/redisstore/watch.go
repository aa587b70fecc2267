package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/shedlock"
)

// watches share one subscription, which is made when somebody first waits.
type watches struct {
	store *Store

	mu      sync.Mutex // never held while something is sent
	closed  bool
	sub     *redis.PubSub
	topics  map[string]*topic
	changes []change      // that the server has not been asked for
	more    chan struct{} // has a value when there are changes
	running sync.WaitGroup
}

// A change subscribes to channels, or ends that.
type change struct {
	channels []string
	end      bool
}

// A topic is a channel that somebody watches.
type topic struct {
	ready   chan struct{} // closed when the server has confirmed the subscription
	once    sync.Once
	watches map[*watch]bool
}

type watch struct {
	wake chan struct{}
	left bool // guarded by watches.mu
}

func (w *watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has a value that has not been received
	}
}

// confirmWithin bounds the wait for a subscription: a user who may not subscribe gets no answer that go-redis hands on.
const confirmWithin = 10 * time.Second

// Watch is as in store.Waiter. A release publishes a message; when the connection was lost and is there again everybody is woken once,
// for a message may have been missed.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	var channels []string
	for _, name := range names {
		if err := store.CheckName(name); err != nil {
			return nil, err
		}
		b := &s.parts[s.bucketOf(name)]
		channels = append(channels, b.channel+name)
		if _, shared := s.peer(b, name); shared && s.cfg.Redisson {
			lock, _ := shedlock.Bare(name)
			channels = append(channels, redissonChannel(lock))
		}
	}
	w := &watch{wake: make(chan struct{}, 1)}
	waits, err := s.watches.join(w, channels)
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { s.watches.leave(w, channels) })
	if err := s.confirmed(ctx, waits); err != nil {
		leave()
		return nil, err
	}
	s.follow(ctx, w, names)
	stopStore := context.AfterFunc(s.ctx, leave)
	context.AfterFunc(ctx, func() {
		stopStore()
		leave()
	})
	return w.wake, nil
}

// confirmed waits for the server's word that it has subscribed the topics.
func (s *Store) confirmed(ctx context.Context, waits []*topic) error {
	limit := time.NewTimer(confirmWithin)
	defer limit.Stop()
	for _, t := range waits {
		select {
		case <-t.ready:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return store.ErrClosed
		case <-limit.C:
			return fmt.Errorf("redisstore: the server has not confirmed a subscription within %v: it cannot be reached, or the user may not "+
				"subscribe to channels that begin with {%s: (see the ACL in docs/redis.md)", confirmWithin, s.cfg.Prefix)
		}
	}
	return nil
}

func (ws *watches) join(w *watch, channels []string) ([]*topic, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, store.ErrClosed
	}
	if ws.sub == nil {
		ws.sub = ws.store.client.Subscribe(ws.store.ctx)
		ws.topics, ws.more = map[string]*topic{}, make(chan struct{}, 1)
		messages := ws.sub.ChannelWithSubscriptions()
		ws.running.Go(func() { ws.listen(messages) })
		ws.running.Go(ws.steer)
	}
	var waits []*topic
	var fresh []string
	for _, channel := range channels {
		t := ws.topics[channel]
		if t == nil {
			t = &topic{ready: make(chan struct{}), watches: map[*watch]bool{}}
			ws.topics[channel] = t
			fresh = append(fresh, channel)
		}
		t.watches[w] = true
		waits = append(waits, t)
	}
	ws.change(fresh, false)
	return waits, nil
}

// leave ends a watch.
func (ws *watches) leave(w *watch, channels []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var stale []string
	for _, channel := range channels {
		t := ws.topics[channel]
		if t == nil || !t.watches[w] {
			continue
		}
		if delete(t.watches, w); len(t.watches) == 0 && t.confirmed() {
			delete(ws.topics, channel)
			stale = append(stale, channel)
		}
	}
	ws.change(stale, true)
	w.left = true
	close(w.wake)
}

// change has steer ask the server for a change, in its turn.
func (ws *watches) change(channels []string, end bool) {
	if len(channels) == 0 {
		return
	}
	ws.changes = append(ws.changes, change{channels, end})
	select {
	case ws.more <- struct{}{}:
	default:
	}
}

// steer asks the server for the changes, in their order. An error is that of a connection which the subscription makes anew by itself, with
// all channels that were asked for.
func (ws *watches) steer() {
	for {
		select {
		case <-ws.more:
		case <-ws.store.ctx.Done():
			return
		}
		ws.mu.Lock()
		changes := ws.changes
		ws.changes = nil
		ws.mu.Unlock()
		for _, c := range changes {
			if c.end {
				_ = ws.sub.Unsubscribe(ws.store.ctx, c.channels...)
			} else {
				_ = ws.sub.Subscribe(ws.store.ctx, c.channels...)
			}
		}
	}
}

// wake wakes one watch unless it has ended.
func (ws *watches) wake(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !w.left {
		w.signal()
	}
}

func (ws *watches) listen(messages <-chan any) {
	for m := range messages {
		ws.heard(m)
	}
}

func (ws *watches) heard(message any) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch m := message.(type) {
	case *redis.Message:
		if t := ws.topics[m.Channel]; t != nil {
			t.wake()
		}
	case *redis.Subscription:
		if t := ws.topics[m.Channel]; t != nil && m.Kind == "subscribe" {
			t.once.Do(func() { close(t.ready) })
			t.wake() // it may be a new connection
			if len(t.watches) == 0 {
				delete(ws.topics, m.Channel)
				ws.change([]string{m.Channel}, true)
			}
		}
	}
}

// confirmed says that the server has answered. Before that the topic is not given up: its answer would be taken for that of the next
// subscription to the channel.
func (t *topic) confirmed() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

func (t *topic) wake() {
	for w := range t.watches {
		w.signal()
	}
}

// close ends the subscription. The store's context has ended.
func (ws *watches) close() {
	ws.mu.Lock()
	ws.closed = true
	sub := ws.sub
	ws.mu.Unlock()
	if sub != nil {
		_ = sub.Close()
		ws.running.Wait()
	}
}
