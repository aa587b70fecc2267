package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// watches share one subscription, which is made when somebody first waits.
type watches struct {
	store *Store

	mu     sync.Mutex
	closed bool
	sub    *redis.PubSub
	done   chan struct{} // closed when nobody reads sub any more
	topics map[string]*topic
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

// Watch is as in store.Waiter. A release publishes a message; when the connection was lost and is there again everybody is woken once,
// for a message may have been missed.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	channels := make([]string, len(names))
	for i, name := range names {
		if err := store.CheckName(name); err != nil {
			return nil, err
		}
		channels[i] = s.parts[s.bucketOf(name)].channel + name
	}
	w := &watch{wake: make(chan struct{}, 1)}
	waits, err := s.watches.join(ctx, w, channels)
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { s.watches.leave(w, channels) })
	for _, t := range waits {
		select {
		case <-t.ready:
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		case <-s.ctx.Done():
			leave()
			return nil, store.ErrClosed
		}
	}
	s.follow(ctx, w, names)
	stopStore := context.AfterFunc(s.ctx, leave)
	context.AfterFunc(ctx, func() {
		stopStore()
		leave()
	})
	return w.wake, nil
}

func (ws *watches) join(ctx context.Context, w *watch, channels []string) ([]*topic, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, store.ErrClosed
	}
	if ws.sub == nil {
		ws.sub = ws.store.client.Subscribe(ws.store.ctx)
		ws.done, ws.topics = make(chan struct{}), map[string]*topic{}
		go ws.listen(ws.sub.ChannelWithSubscriptions(), ws.done)
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
	if len(fresh) > 0 {
		// An error is that of a connection which the subscription makes anew by itself, with all of its channels.
		_ = ws.sub.Subscribe(ctx, fresh...)
	}
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
	if len(stale) > 0 && !ws.closed {
		_ = ws.sub.Unsubscribe(ws.store.ctx, stale...)
	}
	w.left = true
	close(w.wake)
}

// wake wakes one watch unless it has ended.
func (ws *watches) wake(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !w.left {
		w.signal()
	}
}

func (ws *watches) listen(messages <-chan any, done chan struct{}) {
	defer close(done)
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
			if len(t.watches) == 0 && !ws.closed {
				delete(ws.topics, m.Channel)
				_ = ws.sub.Unsubscribe(ws.store.ctx, m.Channel)
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

// close ends the subscription.
func (ws *watches) close() {
	ws.mu.Lock()
	already := ws.closed
	ws.closed = true
	sub, done := ws.sub, ws.done
	ws.mu.Unlock()
	if sub != nil && !already {
		_ = sub.Close()
		<-done
	}
}
