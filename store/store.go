package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A Store keeps leases. It must be safe for concurrent use.
//
// Acquire, Extend and Release take a batch and return one result per element, in the order of the batch. Names may repeat within a batch; the
// elements are decided in order. An empty batch returns an empty slice.
//
// Errors are reported in two places. If the second result is not nil, it applies to every element of the batch, and the slice is nil. Otherwise
// the slice is as long as the batch, and each of its elements has its own error. In both places an error that is [ErrUnknown] means
// that the element may or may not have taken effect, now or a little later. Any other error means that it has not.
//
// A record that cannot be read, because something else has written to it, affects its own name only: requests for that name return an error that
// names the record, and change nothing.
//
// If the deadline of ctx passes before the backend has replied, a method returns without waiting for the reply; the error of Acquire, Extend and
// Release is then ErrUnknown, unless the request was never sent. A method does not begin with a context that has ended. A cancellation while
// a request is under way ends it where the driver can do that; otherwise the method returns with the reply, or at the deadline. The
// client gives every request a deadline.
type Store interface {
	// Acquire tries once to acquire each name, and does not wait. The error of an outcome is nil if the name was granted, a *HeldError if the
	// name is taken, and a *DoneError if the record's mark is at least the claim's. If the holder of a claim already holds the name, Acquire
	// returns the same grant again, and the lease ends when it would have ended: so a claim whose reply was lost can be repeated.
	// A claim that is not granted writes nothing.
	Acquire(ctx context.Context, claims []Claim) ([]Outcome, error)

	// Extend extends leases to TTL from now. It never shortens a lease: one that would have ended later than that ends when it would have.
	// It can also replace the record's state and raise its mark. If the lease is not live, Extend changes nothing and the error is ErrLost.
	Extend(ctx context.Context, extensions []Extension) ([]error, error)

	// Release ends leases. It can also replace the record's state and raise its mark. If the lease is not live, Release changes nothing and
	// the error is ErrLost. Repeating a release returns nil and changes nothing, as long as nobody else has acquired the name and the
	// record's mark is at least that of the release: so a release whose reply was lost can be repeated.
	//
	// A lease is live until the store could grant the name to somebody else. So nil means that the name was granted to nobody else before the
	// release took effect. The release may take longer to commit than the lease had left; the store keeps the name for it meanwhile, even
	// though the record may look free to a reader.
	Release(ctx context.Context, releases []Release) ([]error, error)

	// List yields the records whose names begin with prefix, in ascending byte order of their names, including those whose names are free.
	// It is for people and tools, and need not be a snapshot: decisions are made by Acquire. A store can list a new record late, if its documentation
	// says so, but never if prefix is the whole name. List yields one error at most, last. A record that
	// cannot be read is left out; after all others List yields an *UnreadableError that names it. The store may be used while List is running.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]

	// Close releases the resources that the store has opened itself, but not those that it was given, such as a connection pool. Calls
	// after Close return ErrClosed. Closing again does nothing and returns nil.
	Close() error
}

// Forever is the Retain that keeps a record until it is released again with another Retain.
const Forever = time.Duration(1<<63 - 1)

// A Claim requests a lease of a name.
type Claim struct {
	Name   string        // 1 to 255 bytes of UTF-8 without control characters
	Holder string        // identifies one attempt to acquire, so that a repeated request can be told from a new one; as Name
	TTL    time.Duration // how long the lease lives unless it is extended; MinTTL to MaxTTL

	// Mark, if it is not 0, refuses the claim with a *DoneError if the record's mark is >= Mark. This is decided after whether Holder already
	// holds the name, and before whether somebody else does. A name without a record has mark 0. So a claim with a negative Mark is always
	// refused: it reads the record and never writes.
	Mark int64

	// Above, if it is not 0, makes the token of a new grant greater than Above: so tokens keep growing when names move from one store to another
	// one. It does not change a grant that Holder already has. A store whose backend chooses the tokens cannot do this: the error of the
	// outcome is then errors.ErrUnsupported, and the name is not granted. If no token is greater, the error is ErrTokens.
	Above int64
}

// An Outcome is the result of one claim: a grant if Err is nil.
type Outcome struct {
	Grant Grant
	Err   error
}

// A Grant is a lease of a name.
type Grant struct {
	Token int64  // the fencing token: > 0, and greater than that of every earlier grant of the name
	Mark  int64  // the record's mark
	State []byte // the record's state as the last holder left it; the caller may keep and change it

	// ExpiredAge is > 0 if the previous lease of the name expired, because its holder died or was cut off, instead of being released. It is how
	// long before this grant the previous lease was granted. It is 0 if the same holder repeats its claim.
	ExpiredAge time.Duration
}

// An Extension extends a lease.
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
	Linger       time.Duration // how long the name stays taken, by nobody, after the release; 0 frees it immediately; at most MaxTTL
	Mark         int64         // as in Extension
	State        []byte        // as in Extension

	// Retain is how long from now the store must remember the record's mark and state at least; [Forever] has no end. After that, and after
	// the linger, the store may forget the record. A store never forgets a record whose last lease was not released, since the next
	// grant must report that it expired: a name that is used once must be released. A forgotten name never gets a token that it had before.
	Retain time.Duration
}

// A Record is what a store keeps for a name.
type Record struct {
	Name   string
	Holder string // who has or had the lease; "" after a release
	Token  int64  // the token of the last grant

	// Mark is the record's high-water mark: a number that only grows, and whose meaning is the caller's. A claim can require that it is
	// lower than a given number, which makes "not yet processed up to here" part of the same atomic step as the lease.
	Mark int64

	State []byte        // what the last holder left for the next; the caller may keep and change it
	Left  time.Duration // until the lease or the linger ends; 0 if the name is free
	Age   time.Duration // since the last grant
}

// Free reports whether the name was free when the record was read.
func (r Record) Free() bool { return r.Left <= 0 }

// The interfaces below are optional. Callers find them by As, which also finds them in a store that is wrapped by another one, and do without
// what a store does not implement. Each method may return an error that is errors.ErrUnsupported, if the store cannot do it as it is
// configured. It has then done nothing, and callers do without it too.

// A Watcher can notify a waiter that a name may have become free.
type Watcher interface {
	// Watch returns a channel that receives a value after a release of any of the names. It is subscribed when it returns: a caller that
	// then tries once more, and waits after that, misses no release. It may send more often; releases before the last value was received
	// may share that value. A store may notify some of many waiters at once, and others up to five seconds later; these receive no value if somebody else has
	// acquired the name by then, unless that lease can end sooner than the one before. The channel is closed when ctx ends, when the subscription is lost, and when the store is closed. Nothing is sent
	// when a lease expires: a caller needs a timer for what is left of the lease that refused it. No names, or one that is not valid, is an *InvalidError.
	Watch(ctx context.Context, names []string) (<-chan struct{}, error)
}

// A Queuer keeps a queue of waiters for each name. A release hands the name over to the first of them.
type Queuer interface {
	// Queue acquires a name for a holder that waits. The claim's Mark and Above must be 0. If the name is held, the holder is added to the end of
	// the name's queue, unless it is in it already, and Queue waits. A release grants the name, in the same atomic step, to the first
	// holder of the queue for its claim's TTL, unless the name is to linger. Queue returns
	//
	//   - a grant. after is how long after this request reached the store the lease began, by the store's clock. It is negative for a
	//     lease that the holder had before. A caller computes the end of the lease from there, not from when Queue returned. For a Clockless
	//     store the time of a lease begins when it hears that the name was handed over, which others may see before;
	//   - a *HeldError when the caller should call again: the lease in the way would have ended by
	//     now, or another lease in the way ends sooner than the last one, or the name lingers, or ctx has ended. The holder stays in the queue,
	//     unless this call was granted a lease that ended before Queue could return it: a call is one claim, and is granted at most one lease;
	//   - ErrUnknown if the request was not answered, or if a later one that reads what was granted failed. The holder may be in the
	//     queue, or hold the name.
	//
	// A holder that gives up must call Leave. Other errors are as in Acquire.
	Queue(ctx context.Context, c Claim) (grant Grant, after time.Duration, err error)

	// Leave removes a holder from the queue of a name. It returns false if the holder was not in the queue: it may hold the name. Errors are as in Acquire.
	Leave(ctx context.Context, name, holder string) (bool, error)
}

// A Chooser can acquire any one of several names in one step.
type Chooser interface {
	// Choose acquires the first of names that is free for claim.Holder, and returns its index and the grant. claim.Name is ignored, and
	// claim.Mark and claim.Above must be 0. If the holder already holds one of the names, Choose returns that grant again. If all names are taken, Choose
	// returns the index and the *HeldError of the name that would be free first. If names or the claim are not valid, it returns an
	// *InvalidError. Other errors are as in Acquire.
	Choose(ctx context.Context, names []string, claim Claim) (i int, grant Grant, err error)
}

// A Pinger can check whether the backend responds.
type Pinger interface {
	// Ping returns nil if the backend can read records now.
	Ping(ctx context.Context) error
}

// A Pager can list from a name on.
type Pager interface {
	// ListAfter yields what List yields without the records whose names are at or before after, in byte order. It does not read those, and it
	// reads the others page by page, as the caller takes them: so the first page costs the same wherever it begins and however many follow. after
	// can be any text; it need not be the name of a record. Use the function ListAfter to call it.
	ListAfter(ctx context.Context, prefix, after string) iter.Seq2[Record, error]
}

// A Sweeper forgets records when it is called. A store whose backend forgets by itself need not be one.
type Sweeper interface {
	// Sweep forgets at most limit records that may be forgotten (see Release.Retain), and returns how many. A store that has Sweep forgets at
	// no other time. Records that cannot be read stay; the error may name them, beside the number of records that were forgotten. Records with
	// the last tokens of all stay too: else no other name would have one left.
	Sweep(ctx context.Context, limit int) (int, error)
}

// A Filler can make records of names that have none. A copy of many records into it is faster.
type Filler interface {
	// Fill makes, for each filling whose name the store has no record of, the record that a grant and a release would leave: the name is free, the
	// record has the mark and the state, and is remembered for Retain; its token is greater than those of forgotten grants of the name. It reports of each
	// whether it made the record. What has a record is left as it is. So may be a name that others are working on. If a filling is not valid, Fill
	// returns an *InvalidError, and makes no record. After any other error each may have been made or not, but none is made after the deadline of
	// ctx: a request that is held up must not bring back what was forgotten since.
	Fill(ctx context.Context, fillings []Filling) (made []bool, err error)
}

// A Filling is a record to be made. The fields are as in Release.
type Filling struct {
	Name   string
	Mark   int64
	State  []byte // nil is empty
	Retain time.Duration
}

// A Clockless store has no clock that all its users share. A lease, or a linger, does not end early, and may end late. In stores of package
// casstore each process counts it from when it first saw it; so a process that has not seen a lease before is refused for a whole TTL, however long
// ago the lease has ended. HeldError.Overdue tells such a refusal.
type Clockless interface {
	// Clockless does nothing.
	Clockless()
}

// A Prober can report what the store promises.
type Prober interface {
	// Capabilities asks the backend for what the store promises as it is configured now. Use CapabilitiesOf to call it.
	Capabilities(ctx context.Context) (Capabilities, error)
}

// Capabilities describe what a store promises. They come from the backend's settings, not from assumptions.
type Capabilities struct {
	Backend string  // the backend and its version, for people: "SQLite 3.51.0, WAL, synchronous=FULL"
	Scope   Scope   // who can share the store
	Fencing Promise // claims are linearizable and tokens strictly grow, whatever fails
	Durable Promise // what the store has confirmed survives a crash of the backend
	Waiting Promise // a release wakes waiters; they do not poll
}

// A Promise is a capability with the reason for it.
type Promise struct {
	Answer Answer `json:"answer"`
	Why    string `json:"why"`
}

// An Answer is yes, no or unknown; the zero value is unknown.
type Answer int

// The values of an Answer. Unknown means that the store could not find out, or was not allowed to: treat it as No.
const (
	Unknown Answer = iota
	No
	Yes
)

// String returns "yes", "no" or "unknown".
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

// MarshalText returns the answer as String does.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Scope is the set of programs that can share a store.
type Scope string

// The scopes.
const (
	ScopeProcess Scope = "process" // the goroutines of one process
	ScopeHost    Scope = "host"    // the processes of one host
	ScopeFleet   Scope = "fleet"   // every machine that reaches the backend
)

// CapabilitiesOf returns the capabilities of s. If s is not a Prober, they are unknown.
func CapabilitiesOf(ctx context.Context, s Store) (Capabilities, error) {
	if p, ok := As[Prober](s); ok {
		c, err := p.Capabilities(ctx)
		if !errors.Is(err, errors.ErrUnsupported) {
			return c, err
		}
	}
	why := Promise{Unknown, "the store does not say"}
	return Capabilities{Backend: "unknown", Fencing: why, Durable: why, Waiting: why}, nil
}
