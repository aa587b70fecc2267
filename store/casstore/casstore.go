package casstore

import (
	"context"
	"crypto/rand"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store. The zero value is valid.
type Config struct {
	// CreateFirst acquires a name that this process has not seen before by creating its item, without reading it first. It
	// saves a request for new names if the backend returns the existing item in the same request (Result.Current).
	CreateFirst bool

	// TakeFree acquires a name by one request if it is free, also if other processes have had it since this one has seen it, or this one never has. The
	// backend implements Change.Free. It includes CreateFirst, and does not go with Sequenced.
	TakeFree bool

	// Sequenced makes the version of the write that granted a name its token, for a backend whose versions are decimal numbers that only grow: the version
	// of each write is greater than that of every write of any item that was confirmed before it was sent, also after deletions. No floor of tokens
	// is needed then. The backend stores such a record with the token 0, and the store adds the version. Claims with Above are errors.ErrUnsupported.
	Sequenced bool
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Chooser   = (*Store)(nil)
	_ store.Sweeper   = (*Store)(nil)
	_ store.Pinger    = (*Store)(nil)
	_ store.Clockless = (*Store)(nil)
)

// A Store is a store.Store, a store.Chooser, a store.Sweeper, a store.Pinger and a store.Clockless on a backend. It is safe for concurrent
// use.
type Store struct {
	backend Backend
	cfg     Config
	sights  sights
	floor   atomic.Int64  // the highest floor that was read
	id      string        // of this store, in Record.Write
	writes  atomic.Uint64 // counts them
	closed  atomic.Bool

	sweeping chan struct{} // has room for the call of Sweep that sweeps
	cursor   string        // of that
	failed   int           // how often in turn the backend could not go on from there
}

// New returns a store on a backend. It sends no request.
func New(b Backend, cfg Config) *Store {
	return &Store{backend: b, cfg: cfg, id: rand.Text(), sweeping: make(chan struct{}, 1)}
}

// Close closes the backend. Calls after Close return store.ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.backend.Close()
}

// ready returns the error of a store that is closed or a context that has ended.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Ready returns the error of a store that is closed or of a context that has ended. It is for the methods that a package adds to those of its store.
func Ready(ctx context.Context, s *Store) error { return s.ready(ctx) }

// Clockless implements store.Clockless.
func (s *Store) Clockless() {}

// Ping reads one item.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	_, err := s.readFloor(ctx)
	return err
}

// See records an item that the backend has read by itself, such as for a watch: this process measures its TTL from now, and need not read it again.
func (s *Store) See(item Item) {
	if item = s.checked(item.Name, item); item.Err == nil {
		s.sights.see(item)
	}
}

// Seen returns the item of a name as this process has seen it last.
func (s *Store) Seen(name string) Item {
	seen, _ := s.sights.of(name)
	return seen.item
}

// Writer identifies the store, of whatever process, that has written an item; "" if nobody has.
func Writer(item Item) string {
	who, _, _ := strings.Cut(item.Record.Write, "-")
	return who
}

// Freed reports whether a waiter that knows one item of a name should look again, since the name has another item now: the name was released, or can be free
// sooner than the waiter expects. If the name was released and somebody else has it already, there is nothing to look for.
func Freed(known, now Item) bool {
	if now.Version == known.Version {
		return false
	}
	return now.Err != nil || now.Version == "" || now.Record.Released || now.Record.Token != known.Record.Token && now.Record.TTL < known.Record.TTL
}

// stamp makes a record unique, and notes when it is written.
func (s *Store) stamp(r *Record) {
	r.Write = s.id + "-" + strconv.FormatUint(s.writes.Add(1), 36) + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
}

// written returns when the record was written, by the wall clock of the client that wrote it. Of a Write that does not tell it, it is the time of the grant.
func (r Record) written() time.Time {
	if parts := strings.Split(r.Write, "-"); len(parts) == 3 {
		if at, err := strconv.ParseInt(parts[2], 36, 64); err == nil {
			return time.UnixMilli(at)
		}
	}
	return r.Granted
}

// nextToken returns a token that is greater than two others.
func nextToken(a, b, c int64) (int64, error) {
	if last := max(a, b, c); last < math.MaxInt64 {
		return last + 1, nil
	}
	return 0, store.ErrTokens
}
