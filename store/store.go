package store

import (
	"context"
	"iter"
	"time"
)

// A Store remembers leases. It is safe for use by many goroutines at once.
//
// The three verbs report errors in two places. The error beside the slice is that of the whole call: the slice is then
// nil and every element of the batch has that error as its outcome. Otherwise the slice is as long as the batch and its
// element i answers element i. In both places an error that is [ErrUnknown] says that the element may or may not have
// taken effect, now or a little later; any other error says that it has not.
//
// An empty batch does nothing and answers an empty slice. Names may repeat within a batch; they are decided in order.
//
// A record that cannot be read, because something else has written it, harms its own name alone: what asks for it gets an error that names it
// and changes nothing, and everything else goes on.
type Store interface {
	// Acquire tries once to take each name. The error of an outcome is nil for a grant, a *HeldError when another
	// holder (or nobody, for a linger) has the name, and a *DoneError when the record's mark answers the claim.
	Acquire(ctx context.Context, claims []Claim) ([]Outcome, error)

	// Extend keeps leases live until TTL from now, or until when they would have ended if that is later: an
	// extension never shortens a lease. It may replace the state and raise the mark. ErrLost for a lease that is not
	// live; it changes nothing then.
	Extend(ctx context.Context, extensions []Extension) ([]error, error)

	// Release ends leases. ErrLost for a lease that is not live; it changes nothing then. Releasing again what the same
	// holder has released, while nobody else has taken the name and the record's mark is at least the one asked for,
	// answers nil and changes nothing, so that a release whose reply was lost can be repeated.
	//
	// A lease is live until the store could grant the name to somebody else. So nil says that nobody else was granted the name before the
	// release took effect. It may have taken longer to commit than the lease had left: the store has kept the name for it meanwhile, though a
	// record that was read then may look free.
	Release(ctx context.Context, releases []Release) ([]error, error)

	// List yields the records whose names begin with prefix, in ascending byte order of their names, free ones
	// included. It is a view for people and tools, not a snapshot: decide by Acquire. It ends after the first error. Records
	// that cannot be read are left out, and told by an error after all others. The store may be used while it is under way.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]

	// Close frees what the store opened itself, never what it was given. Calls made afterwards answer ErrClosed; closing
	// again does nothing.
	Close() error
}

// Forever as a Retain keeps a record until somebody releases its name with another.
const Forever = time.Duration(1<<63 - 1)

// A Claim asks for a name.
type Claim struct {
	Name   string        // 1 to 255 bytes of UTF-8 without control characters
	Holder string        // who asks: unique to one attempt, so that asking again can be told from asking anew; as Name
	TTL    time.Duration // how long the lease lives unless it is extended; MinTTL to MaxTTL

	// Mark, when not 0, refuses the claim with a *DoneError if the record's mark is >= Mark. This is decided before
	// whether the name is held, but after whether this very holder already has it. A name without a record has mark 0,
	// so a negative Mark is always refused: it reads the record without ever writing.
	Mark int64
}

// An Outcome answers one claim: a grant when Err is nil.
type Outcome struct {
	Grant Grant
	Err   error
}

// A Grant is a lease of a name to a holder.
type Grant struct {
	Token int64  // the fencing token: > 0, and greater than that of every earlier grant of the name
	Mark  int64  // the record's mark
	State []byte // the record's state as the last holder left it; the caller's to keep

	// Abandoned is > 0 when the lease before this one ended by expiry, never released by its holder: it is how long
	// before this grant that lease was granted. The same holder asking again is not told.
	Abandoned time.Duration
}

// An Extension keeps a lease live.
type Extension struct {
	Name, Holder string
	Token        int64
	TTL          time.Duration // from now; MinTTL to MaxTTL
	Mark         int64         // raises the record's mark to this if it is lower; 0 leaves it
	State        []byte        // replaces the record's state; nil leaves it, empty clears it; at most MaxState bytes
}

// A Release ends a lease.
type Release struct {
	Name, Holder string
	Token        int64
	Linger       time.Duration // how long the name stays taken, by nobody; 0 frees it at once; at most MaxTTL
	Mark         int64         // as in Extension
	State        []byte        // as in Extension

	// Retain is how long from now the record's mark and state must be remembered at least; [Forever] has no end. After
	// that (and after the linger) a store may forget the record. A store never forgets a record whose last grant was not
	// released, for with it the next holder could not be told that the one before died: a name that is used once must be
	// released. Forgetting never lets a token of the name repeat.
	Retain time.Duration
}

// A Record is what a store remembers of a name.
type Record struct {
	Name   string
	Holder string        // who has or had the lease; "" after a release
	Token  int64         // the token of the last grant
	Mark   int64         // only grows
	State  []byte        // the last holder's; the caller's to keep
	Left   time.Duration // how long the lease or the linger lasts from now; 0 when the name is free
	Age    time.Duration // since the last grant
}

// Free says that the name could be taken when the record was read.
func (r Record) Free() bool { return r.Left <= 0 }

// What a store can do beyond Store is said by small optional interfaces. Whoever needs one asks for it with a type
// assertion and has a way without it.

// A Waiter can tell when one of some names may have become free.
type Waiter interface {
	// Watch is subscribed when it returns, so a release after that is not missed: look once more, then wait. The
	// channel receives a value after a release of any of the names, possibly more often; releases that come
	// before the last value has been received may share it. It is closed when ctx ends or the subscription is
	// lost. Expiry wakes nobody: keep a timer on what the refusal said is left.
	Watch(ctx context.Context, names []string) (<-chan struct{}, error)
}

// A Queuer keeps those who wait for a name in a line, and hands the name over when it is released: nobody has to be woken to ask for
// it, and those who wait are served in the order in which they came.
type Queuer interface {
	// Queue is Acquire of one claim, whose Mark is 0, by a holder who waits. If the name is held the holder stands in the name's line, at
	// its end unless it has a place there already, and Queue waits. A release grants the name, in the same step, to the first of the line
	// for its claim's TTL, unless the name is to linger. The others are told if that ends before what they have been told. Queue answers
	//
	//   - the grant, with how long after this request reached the store the lease began, by the store's clock: less than 0 for a
	//     grant that the holder had before. A deadline must be counted from there, not from the answer;
	//   - a *HeldError when the lease that was in the way would have ended, or another that ends sooner is, the name lingers, or ctx has
	//     ended: ask again. The holder keeps its place;
	//   - ErrUnknown when nothing came back of the request itself. The holder may have a place, or the name.
	//
	// Who gives up must Leave. errors.ErrUnsupported says that this store, as it is configured, keeps no lines, and that nothing has been
	// asked for. Other errors are as in Acquire.
	Queue(ctx context.Context, c Claim) (out Outcome, after time.Duration, err error)

	// Leave gives up the place of a holder. It says false if there was none: the name may have been handed over. Errors as in Acquire.
	Leave(ctx context.Context, name, holder string) (bool, error)
}

// A Chooser can take any one of several names in one step.
type Chooser interface {
	// Choose takes the first free of names for claim.Holder, ignoring claim.Name, and answers its index and the grant.
	// A holder that already has one of the names gets that grant again. When all are taken the outcome is the
	// *HeldError of the one that would be free first, with its index. Claim.Mark must be 0. Errors as in Acquire; what is
	// wrong with the names or the claim is an *InvalidError in the outcome.
	Choose(ctx context.Context, names []string, claim Claim) (int, Outcome, error)
}

// A Pinger can say whether the backend answers.
type Pinger interface {
	Ping(ctx context.Context) error
}

// A Sweeper forgets on request what may be forgotten. Stores whose backend forgets by itself need not be one.
type Sweeper interface {
	// Sweep forgets at most limit records and says how many it forgot. Such a store forgets at no other time. Records that cannot be read
	// stay; the error, beside how many of the others it forgot, may tell of them.
	Sweep(ctx context.Context, limit int) (int, error)
}

// A Prober can say what the store promises as it is configured now.
type Prober interface {
	Capabilities(ctx context.Context) (Capabilities, error)
}

// Capabilities say what a store promises, as configured, by looking and not by hoping.
type Capabilities struct {
	Backend string  // the backend and its version, for people: "SQLite 3.51.0, WAL, synchronous=FULL"
	Scope   Scope   // who can share it
	Fencing Promise // claims are linearizable and tokens strictly grow, whatever fails
	Durable Promise // what was answered survives a crash of the backend
	Waiting Promise // waiters are woken by a release, not by a timer
}

// A Promise is a capability with the reason for it.
type Promise struct {
	Answer Answer `json:"answer"`
	Why    string `json:"why"`
}

// An Answer is yes, no or unknown; the zero value is unknown.
type Answer int

// The answers. Unknown is what a probe says that was denied or not made: treat it as No.
const (
	Unknown Answer = iota
	No
	Yes
)

func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	default:
		return "unknown"
	}
}

// MarshalText writes the answer as in String.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Scope says who can share a store.
type Scope string

// The scopes.
const (
	ScopeProcess Scope = "process" // the goroutines of one process
	ScopeHost    Scope = "host"    // the processes of one host
	ScopeFleet   Scope = "fleet"   // every machine that reaches the backend
)

// CapabilitiesOf asks s for its capabilities; those of a store that is not a Prober are unknown.
func CapabilitiesOf(ctx context.Context, s Store) (Capabilities, error) {
	if p, ok := s.(Prober); ok {
		return p.Capabilities(ctx)
	}
	why := Promise{Unknown, "the store does not say"}
	return Capabilities{Backend: "unknown", Fencing: why, Durable: why, Waiting: why}, nil
}
