package natsstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/jsonrecord"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// flights is how many requests of one batch are under way at once. They share a connection.
const flights = 256

// A backend is the records of one bucket.
type backend struct {
	links links
	cfg   Config
	subjects

	high atomic.Uint64 // the highest sequence that the leader of the stream has confirmed or shown

	mu      sync.Mutex
	checked bool         // the bucket was found to be usable
	atomic  bool         // it accepts atomic batches
	reports bool         // it reports what was stored
	low     *lowSequence // its sequence may have fallen
	fell    *fellError   // its sequence has fallen: tokens may have been granted before, also when the sequence has caught up
}

// A lowSequence is one that a server has shown although a later one was known.
type lowSequence struct {
	from, to   uint64
	leadership leadership // in which it was shown
}

// What is known before a server is asked for the state of the bucket.
type known struct {
	high uint64       // the highest sequence that was confirmed or shown
	low  *lowSequence // of which it was not found out yet whether the sequence has fallen
}

func (b *backend) known() known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return known{b.high.Load(), b.low}
}

// link returns a connection through which a bucket can be reached that was found to be usable.
func (b *backend) link(ctx context.Context) (*link, error) {
	l, err := b.links.get(ctx)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	b.mu.Lock()
	checked := b.checked
	b.mu.Unlock()
	if checked {
		return l, nil
	}
	before := b.known()
	info, err := b.info(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := b.usable(ctx, l, info, before); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked, b.atomic, b.reports = b.fell == nil && b.low == nil, info.Config.AllowAtomicPublish, b.wakes(&info.Config)
	return l, nil
}

// checkAgain makes the next request look at the bucket first.
func (b *backend) checkAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked = false
}

// batches reports whether the bucket accepts atomic batches.
func (b *backend) batches() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.atomic
}

// silent reports whether the bucket does not report what was stored.
func (b *backend) silent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.reports
}

// Read implements casstore.Backend. The leader of the stream reads; in a part of a cluster that is cut off an old leader may do so for some seconds, and show
// an earlier record. Nobody is granted a name by that: a new grant is a write, which is conditional, and an old grant that a repeated claim finds was made by the
// same claim. Its client counts the lease from the first request, so it ends no later than without that.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	l, err := b.link(ctx)
	if err != nil {
		return nil, err
	}
	items, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) { items[i], errs[i] = b.read(ctx, l, names[i]) })
	if err := cmp.Or(errs...); err != nil { // one is enough: it fails all
		return nil, err
	}
	return items, nil
}

func (b *backend) read(ctx context.Context, l *link, name string) (casstore.Item, error) {
	m, err := b.last(ctx, l, name)
	if err != nil {
		b.doubt(err)
		return casstore.Item{}, wrap("reading", err)
	}
	return m.item(name), nil
}

// last returns the last message of a name. Those of lists, which any replica shows, do not count as the highest.
func (b *backend) last(ctx context.Context, l *link, name string) (message, error) {
	m, err := l.last(ctx, b.subjects, keyOf(name))
	if err == nil && m.Sequence <= math.MaxInt64 {
		b.raise(m.Sequence)
	}
	return m, err
}

// raise notes a sequence that the bucket has reached.
func (b *backend) raise(sequence uint64) {
	for {
		known := b.high.Load()
		if sequence <= known || b.high.CompareAndSwap(known, sequence) {
			return
		}
	}
}

// doubt makes the next request look at the bucket first if an error may be that it is gone.
func (b *backend) doubt(err error) {
	var failure *jetstream.APIError
	if errors.Is(err, nats.ErrNoResponders) || errors.As(err, &failure) && failure.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		b.checkAgain()
	}
}

// Write implements casstore.Backend. Many changes of leases that have their tokens are published in atomic batches where the server has these. All others
// are published one by one, without waiting for each other.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	l, err := b.link(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]casstore.Result, len(changes))
	var single, together []int
	many := len(changes) > b.few()
	for i, c := range changes {
		if many && c.Version != "" && c.Record != nil && c.Record.Token != 0 && b.batches() {
			together = append(together, i)
		} else {
			single = append(single, i)
		}
	}
	single = append(single, b.publishBatches(ctx, l, changes, together, results)...)
	parallel.Do(len(single), flights, func(i int) { results[single[i]] = b.write(ctx, l, changes[single[i]]) })
	return results, nil
}

// few returns how many changes are not worth an atomic batch. A server commits each batch to its disk. Without Synced it does not do so for single messages, and
// as many of them as are under way at once are confirmed sooner.
func (b *backend) few() int {
	if b.cfg.Synced {
		return 1
	}
	return flights
}

// write changes one record.
func (b *backend) write(ctx context.Context, l *link, c casstore.Change) casstore.Result {
	sequence, err := b.publish(ctx, l, c, c.Version)
	if !conflicts(err) {
		return result(c, sequence, err)
	}
	now, err := b.last(ctx, l, c.Name)
	if err != nil {
		return casstore.Result{Err: casstore.ErrConflict}
	}
	if c.Version == "" && now.gone() { // what says that there is no record is a message, too
		sequence, err := b.publish(ctx, l, c, strconv.FormatUint(now.Sequence, 10))
		if !conflicts(err) {
			return result(c, sequence, err)
		}
		return casstore.Result{Err: casstore.ErrConflict}
	}
	item := now.item(c.Name)
	return casstore.Result{Err: casstore.ErrConflict, Current: &item}
}

// result is that of a change without a conflict.
func result(c casstore.Change, sequence uint64, err error) casstore.Result {
	switch {
	case err != nil:
		return casstore.Result{Err: unsure("writing", err)}
	case c.Record == nil:
		return casstore.Result{}
	}
	return casstore.Result{Version: strconv.FormatUint(sequence, 10)}
}

// markerTTL is how long the message stays with which a record is deleted. Nothing depends on it.
const markerTTL = "10s"

// message returns what publishes a change if the last message of its subject has a sequence.
func (b *backend) message(l *link, c casstore.Change, expected string) (*nats.Msg, error) {
	m := nats.NewMsg(l.puts + b.record(keyOf(c.Name)))
	if expected == "" {
		expected = "0"
	}
	m.Header.Set(headerExpected, expected)
	if c.Record == nil {
		remove(m)
		return m, nil
	}
	if c.Record.Released {
		m.Header.Set(headerReleased, "1")
	} else {
		m.Header.Set(headerLease, strconv.FormatInt(int64(c.Record.TTL), 10))
	}
	var err error
	if m.Data, err = jsonrecord.Encode(c.Record); err != nil {
		err = errors.Join(errNotSent, err)
	}
	return m, err
}

// remove makes a message the one with which a record is deleted.
func remove(m *nats.Msg) {
	m.Header.Set(headerOperation, "PURGE")
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerTTL, markerTTL)
}

// publish writes one message and returns its sequence.
func (b *backend) publish(ctx context.Context, l *link, c casstore.Change, expected string) (uint64, error) {
	m, err := b.message(l, c, expected)
	if err != nil {
		return 0, err
	}
	return b.send(ctx, l, m, nil)
}

// An ack is with what the server confirms that it has stored a message.
type ack struct {
	Stream   string              `json:"stream"`
	Sequence uint64              `json:"seq"`
	Batch    string              `json:"batch"`
	Count    int                 `json:"count"`
	Error    *jetstream.APIError `json:"error"`
}

var errNotSent = errors.New("nothing was sent")

// send publishes a message and returns the sequence that the server has given it. fits, if not nil, reports whether an ack is credible.
func (b *backend) send(ctx context.Context, l *link, m *nats.Msg, fits func(ack) bool) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, errors.Join(errNotSent, err)
	}
	before := b.high.Load()
	reply, err := l.request(ctx, m)
	if err != nil {
		b.doubt(err)
		return 0, err
	}
	var a ack
	switch err := json.Unmarshal(reply.Data, &a); {
	case err != nil:
		return 0, fmt.Errorf("the reply cannot be read: %w", err)
	case a.Error != nil:
		return 0, a.Error
	case a.Stream != b.stream() || a.Sequence == 0 || a.Sequence > math.MaxInt64 || fits != nil && !fits(a):
		return 0, fmt.Errorf("the reply is not that of the bucket: %.200q", reply.Data)
	case a.Sequence <= before || a.Sequence < leastSequence:
		return 0, b.fallen(max(before, leastSequence), a.Sequence)
	}
	b.raise(a.Sequence)
	return a.Sequence, nil
}

// suspect notes that the sequence may have fallen, until settle is told.
func (b *backend) suspect(low *lowSequence) *lowSequence {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked, b.low = false, low
	return low
}

// settle notes whether the sequence has fallen.
func (b *backend) settle(low *lowSequence, fell bool) {
	if fell {
		_ = b.fallen(low.from, low.to)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.low == low {
		b.low = nil
	}
}

// fallen notes that the sequence has fallen. The error is that of the first time.
func (b *backend) fallen(from, to uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked, b.low = false, nil
	if b.fell == nil {
		b.fell = &fellError{bucket: b.bucket, from: from, to: to}
	}
	return b.fell
}

// above returns why a bucket is not one that was made anew after its sequence had fallen, nil if it is or if that has not fallen. So its sequences are above those before.
func (b *backend) above(first uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fell != nil && first > b.fell.from {
		b.fell = nil
	}
	if b.fell == nil {
		return nil
	}
	return fmt.Errorf("natsstore: %w", b.fell)
}

// A fellError reports that the sequence of a bucket has fallen.
type fellError struct {
	bucket   string
	from, to uint64
}

func (e *fellError) Error() string {
	return fmt.Sprintf("the sequence of the bucket %q has fallen from %d to %d, so tokens would be granted again: the bucket was restored from a backup or made anew, "+
		"or its server has lost what it had confirmed; stop what relies on tokens, delete the bucket, and run `soloist migrate up`", e.bucket, e.from, e.to)
}

// Is makes errors.Is(e, store.ErrUnusable) true.
func (e *fellError) Is(target error) bool { return target == store.ErrUnusable }

// Close implements casstore.Backend.
func (b *backend) Close() error { return b.links.close() }

// mayWrite publishes a message that the server refuses: no record has the sequence that it expects.
func (b *backend) mayWrite(ctx context.Context, l *link) error {
	m := nats.NewMsg(l.puts + b.record(keyOf(probe)))
	m.Header.Set(headerExpected, strconv.Itoa(1))
	if _, err := b.send(ctx, l, m, nil); err != nil && !conflicts(err) {
		return wrap("checking rights", err)
	}
	return nil
}

// probe is no record's name: it has a control character. Nothing is stored with it but messages that say that there is no record.
const probe = "\x01rights"
