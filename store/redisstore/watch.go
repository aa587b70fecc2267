package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// watches share one subscription, which is made when somebody first waits.
type watches struct {
	store *Store
	every time.Duration // renews the mark: markEvery

	mu      sync.Mutex // never held while something is sent
	closed  bool
	begun   bool
	topics  map[string]*topic
	changes []change      // that the server has not been asked for
	more    chan struct{} // has a value when there are changes
	moved   chan struct{} // has a value when the subscription is on another connection
	since   string        // what the mark said last
	running sync.WaitGroup
}

// A change subscribes to channels, or ends that.
type change struct {
	channels []string
	end      bool
}

// A topic is a channel that somebody watches.
type topic struct {
	ready   chan struct{} // closed when the server has confirmed the subscription or refused it
	err     error         // why it was refused; set before ready is closed
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

// confirmWithin bounds the wait for a subscription. A caller that waits for a lock then asks for it now and then instead.
const confirmWithin = 5 * time.Second

// A subscription on which nothing has come for silence is asked whether it is there, and given up when that is not answered within patience:
// a server that hangs, or that is cut off, leaves a connection that looks well, and go-redis does not look for the answer to its ping.
const (
	silence  = 2 * time.Second
	patience = time.Second
)

// pauseOfTrouble is between two attempts when no connection can be had, or nothing can be made of what comes: not in a tight loop.
const pauseOfTrouble = 100 * time.Millisecond

// Watch is as in store.Watcher. A release publishes a message once somebody watches; when the connection was lost and is there again everybody is woken once,
// for a message may have been missed.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	var channels []string
	for _, name := range names {
		b := &s.parts[s.bucketOf(name)]
		channels = append(channels, b.channel+name)
		if peer, shared := s.peer(b, name); shared && s.cfg.Redisson {
			channels = append(channels, redissonChannel(peer))
		}
	}
	w := &watch{wake: make(chan struct{}, 1)}
	waits, err := s.watches.join(w, channels)
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { s.watches.leave(w, channels) })
	if err = s.confirmed(ctx, waits); err == nil {
		err = s.mark(ctx)
	}
	if err != nil {
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
			if t.err != nil {
				return t.err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return store.ErrClosed
		case <-limit.C:
			return fmt.Errorf("redisstore: the server has not confirmed a subscription within %v", confirmWithin)
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
	if !ws.begun {
		ws.begun, ws.topics = true, map[string]*topic{}
		ws.more, ws.moved = make(chan struct{}, 1), make(chan struct{}, 1)
		ws.running.Go(ws.keep)
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
		if delete(t.watches, w); len(t.watches) == 0 {
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

// keep has a subscription for as long as the store is open: another one when the server has fallen silent.
func (ws *watches) keep() {
	for ws.store.ctx.Err() == nil {
		ws.attend()
		select {
		case <-ws.store.ctx.Done():
		case <-time.After(pauseOfTrouble):
		}
	}
}

// attend makes a subscription to all that is watched and hears what comes, until the server falls silent. When only the connection
// breaks, the subscription makes another by itself, with all channels that were asked for.
func (ws *watches) attend() {
	ctx, cancel := context.WithCancel(ws.store.ctx)
	sub := ws.store.client.Subscribe(ctx)
	var tasks sync.WaitGroup
	var heard atomic.Int64
	ws.again()
	tasks.Go(func() { ws.steer(ctx, sub) })
	tasks.Go(func() { ws.remark(ctx) })
	tasks.Go(func() {
		listen(ctx, sub, &heard)
		cancel()
		_ = sub.Close() // so that Receive comes back
	})
	for ctx.Err() == nil {
		message, err := receive(ctx, sub)
		if err == nil {
			heard.Add(1)
			ws.heard(message)
			continue
		}
		var bad *malformedError
		if errors.As(err, &bad) {
			// Nobody knows where on the connection the next message begins. If go-redis panicked while it made the connection, it has left its lock
			// locked: then no call on sub comes back, and nobody waits for those that are under way.
			cancel()
			go func() { _ = sub.Close() }()
			return
		}
		var refused redis.Error
		if errors.As(err, &refused) {
			explained, _ := ws.store.classify(err)
			if errors.Is(explained, fs.ErrPermission) {
				explained = fmt.Errorf("%w: the user may not subscribe to the channels {%s:*", explained, ws.store.cfg.Prefix)
			}
			ws.refuse(explained)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauseOfTrouble):
		}
	}
	tasks.Wait()
}

// receive waits for a message, whatever comes.
func receive(ctx context.Context, sub *redis.PubSub) (message any, err error) {
	if bad := unharmed(func() error { message, err = sub.Receive(ctx); return nil }); bad != nil {
		return nil, bad
	}
	return message, err
}

// listen returns when ctx ends or the server has fallen silent.
func listen(ctx context.Context, sub *redis.PubSub, heard *atomic.Int64) {
	quiet := func(d time.Duration) bool {
		before := heard.Load()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return heard.Load() == before
		}
	}
	for ctx.Err() == nil {
		if quiet(silence) {
			_ = unharmed(func() error { return sub.Ping(ctx) })
			if quiet(patience) {
				return
			}
		}
	}
}

// again has steer subscribe to everything that is watched.
func (ws *watches) again() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.changes = nil
	ws.change(slices.Collect(maps.Keys(ws.topics)), false)
}

// steer asks the server for the changes, in their order. An error is that of a connection which the subscription makes anew by itself, with
// all channels that were asked for.
func (ws *watches) steer(ctx context.Context, sub *redis.PubSub) {
	for {
		select {
		case <-ws.more:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil { // the changes are those of the next subscription
			select {
			case ws.more <- struct{}{}:
			default:
			}
			return
		}
		ws.mu.Lock()
		changes := ws.changes
		ws.changes = nil
		ws.mu.Unlock()
		for _, c := range changes {
			_ = unharmed(func() error {
				if c.end {
					return sub.Unsubscribe(ctx, c.channels...)
				}
				return sub.Subscribe(ctx, c.channels...)
			})
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

func (ws *watches) heard(message any) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch m := message.(type) {
	case *redis.Message:
		if m.Channel == ws.store.lines.inbox {
			ws.store.lines.heard(m.Payload)
			return
		}
		if t := ws.topics[m.Channel]; t != nil {
			t.wake()
		}
	case *redis.Subscription:
		if t := ws.topics[m.Channel]; t != nil && m.Kind == "subscribe" {
			if t.confirmed() && m.Channel == ws.store.lines.inbox {
				ws.store.lines.lookAgain() // before anything else is heard: what comes now may be of another server
			} else if t.confirmed() {
				t.wake() // there was a gap: another connection, or an end of this channel that was asked for before
				select {
				case ws.moved <- struct{}{}:
				default:
				}
			} else {
				close(t.ready)
			}
		}
	}
}

// refuse tells those who wait for the confirmation of a subscription that they will not get it.
func (ws *watches) refuse(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var refused []string
	for channel, t := range ws.topics {
		if !t.confirmed() {
			t.err = err
			close(t.ready)
			delete(ws.topics, channel)
			refused = append(refused, channel)
		}
	}
	ws.change(refused, true)
}

// confirmed reports whether the server has answered.
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
	ws.mu.Unlock()
	ws.running.Wait()
}
