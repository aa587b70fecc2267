package hazelcaststore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// slow is how long a reply may take until further requests go to another member. One that is paused or cut off from
// the others keeps clients waiting.
const slow = 2 * time.Second

// links has the link that requests go through, and replaces one that has ended or is slow.
type links struct {
	dialer *dialer

	mu      sync.Mutex
	current *link
	opening *opening // under way
	closed  chan struct{}
	calls   sync.WaitGroup // attempts, and what waits for a reply
}

// An opening is an attempt to connect.
type opening struct {
	done chan struct{} // closed when link and err are set
	link *link
	err  error
}

func newLinks(d *dialer) *links { return &links{dialer: d, closed: make(chan struct{})} }

// get returns a link that was usable a moment ago.
func (ls *links) get(ctx context.Context) (*link, error) {
	ls.mu.Lock()
	if ls.isClosed() {
		ls.mu.Unlock()
		return nil, store.ErrClosed
	}
	if ls.current != nil && ls.current.usable() {
		defer ls.mu.Unlock()
		return ls.current, nil
	}
	if ls.opening == nil {
		ls.opening = &opening{done: make(chan struct{})}
		o := ls.opening
		ls.calls.Go(func() { ls.open(o) })
	}
	o := ls.opening
	ls.mu.Unlock()
	select {
	case <-o.done:
		return o.link, o.err
	case <-ls.closed:
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, wrap(ls.dialer.connecting(), ctx.Err())
	}
}

// isClosed is called under ls.mu.
func (ls *links) isClosed() bool {
	select {
	case <-ls.closed:
		return true
	default:
		return false
	}
}

// open connects to all members at once, and keeps the first that is ready to decide: a member that is cut off from
// the others cannot tell its groups.
func (ls *links) open(o *opening) {
	ctx, cancel := context.WithTimeout(context.Background(), ls.dialer.within)
	defer cancel()
	go func() {
		select {
		case <-ls.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	type result struct {
		link *link
		err  error
	}
	addrs := ls.dialer.addrs
	results := make(chan result, len(addrs))
	for _, addr := range addrs {
		ls.calls.Go(func() {
			l, err := ls.dialer.insist(ctx, addr)
			if err != nil {
				err = fmt.Errorf("%s: %w", addr, err)
			}
			results <- result{l, err}
		})
	}
	var errs []error
	for range addrs {
		r := <-results
		switch {
		case r.err != nil:
			errs = append(errs, r.err)
		case o.link == nil:
			o.link = r.link
			cancel()
		default:
			r.link.retire()
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.opening = nil
	switch {
	case ls.isClosed():
		if o.link != nil {
			o.link.retire()
		}
		o.link, o.err = nil, store.ErrClosed
	case o.link != nil:
		ls.current = o.link
		ls.calls.Go(func() { ls.watch(o.link) })
	default:
		o.err = wrap(ls.dialer.connecting(), all(errs))
	}
	close(o.done)
}

// insist connects to a member, again if that takes long: a member goes on asking a leader that is gone, and is asked
// anew.
func (d *dialer) insist(ctx context.Context, addr string) (*link, error) {
	for patience := slow; ; patience *= 2 {
		attempt, cancel := context.WithTimeout(ctx, patience)
		l, err := d.dial(attempt, addr)
		late := attempt.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return l, err
		}
	}
}

// watch ends a link with the store, also one that another one has replaced.
func (ls *links) watch(l *link) {
	select {
	case <-l.done:
	case <-ls.closed:
		l.end(store.ErrClosed)
	}
}

// all is errors in one line.
type all []error

func (a all) Error() string {
	texts := make([]string, len(a))
	for i, err := range a {
		texts[i] = brief{err}.Error()
	}
	return strings.Join(texts, "; ")
}

func (a all) Unwrap() []error { return a }

// connecting is what an attempt does, for its error.
func (d *dialer) connecting() string {
	if d.plain {
		return fmt.Sprintf("connecting to a member of the cluster %q at %s", d.cluster, strings.Join(d.addrs, ", "))
	}
	return fmt.Sprintf("connecting to the CP Subsystem of the cluster %q at %s (where no member has an error of its own, "+
		"check the port, the wrong kind of TLS and whether a majority of the CP members is there)",
		d.cluster, strings.Join(d.addrs, ", "))
}

// close ends the links, and with them the requests that are under way.
func (ls *links) close() error {
	ls.mu.Lock()
	if !ls.isClosed() {
		close(ls.closed)
	}
	ls.mu.Unlock()
	ls.calls.Wait()
	return nil
}
