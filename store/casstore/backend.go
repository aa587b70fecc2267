package casstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"
)

// A Backend keeps items by name. It must be safe for concurrent use. Reads and writes of one item are linearizable: a
// read that is sent after a write was confirmed sees that write, or a later one.
//
// The error beside a slice applies to the whole call. If it is nil, the slice is as long as the argument, and its
// element i belongs to element i of the argument. The error of a write is [store.ErrUnknown] if the write may have
// taken effect, now or later. Any other error means that it has not and will not.
type Backend interface {
	// Read returns the items of some names, which are all different. An item that does not exist has the version "".
	Read(ctx context.Context, names []string) ([]Item, error)

	// Write replaces, creates or deletes items of different names, each by itself and on its condition. The Err of a
	// result is ErrConflict if the item has another version than the change expects. Write sends each change once: the
	// conflict of a second attempt would hide that the first one took effect. A store recognizes its own write only until
	// the item is changed again.
	Write(ctx context.Context, changes []Change) ([]Result, error)

	// List yields the items whose names begin with prefix, in ascending byte order of their names. It need not be a
	// snapshot. It ends after the first error; items that cannot be read are yielded with their Err.
	List(ctx context.Context, prefix string) iter.Seq2[Item, error]

	// Walk returns up to n items after a cursor, in any fixed order, and the cursor after them, "" at the end. The cursor
	// "" means the beginning. Items that are written meanwhile may be returned or not.
	Walk(ctx context.Context, cursor string, n int) (items []Item, next string, err error)

	// Close releases the resources that the backend opened itself.
	Close() error
}

// ErrConflict reports that an item was not changed because it does not have the expected version.
var ErrConflict = errors.New("changed by somebody else meanwhile")

// An Item is a record with its name and version.
type Item struct {
	Name    string
	Version string // whatever the backend compares; "" for an item that is not there; never used twice for a name
	Record  Record // shared with other readers: not to be changed
	Err     error  // the item cannot be read, because something else has written it; the rest is empty then
}

// A Change replaces an item on a condition.
type Change struct {
	Name    string
	Version string  // the version that is to be replaced; "" makes the item, if it is not there
	Record  *Record // the new record; nil deletes the item

	// Free, which a store sets only with [Config].TakeFree and for the only change of a request, makes it whatever the version is, as long as the name is free: there is no item, or it is
	// released, has the TTL 0, a mark less than Below unless that is 0, and a token of Record.Token-1 or more, but not the last one, math.MaxInt64. Such an item keeps its mark, its state and
	// its Unsure, and its token becomes one greater; a new one has the token of Record, the mark 0 and no state, and is Unsure. All this is one atomic step. Carried out twice, it makes two versions; see [Record.Version].
	Free  bool
	Below int64
}

// A Result is the outcome of a change.
type Result struct {
	Version string // the item's version now, "" for a deletion; only if Err is nil
	Current *Item  // the item as it is now: always if Change.Free was set and Err is nil; if the backend has read it after a change was refused, with ErrConflict or store.ErrUnknown; else nil
	Err     error
}

// A Record is what is stored under a name.
type Record struct {
	Holder   string        // of the last grant, even after its release
	Token    int64         // the fencing token of the last grant
	Mark     int64         // see store.Record
	State    []byte        // see store.Record
	TTL      time.Duration // how long the lease lives, or the name lingers, from when an observer has first seen this item
	Released bool          // the holder has released it
	Unsure   bool          // the client that wrote Token has not confirmed that it is above the floor

	// Write identifies the write that produced this version of the item. By it, a client recognizes that a write with an
	// unknown outcome has taken effect. Its last part is when that was, by the wall clock of the client; see [store.HeldError].Overdue.
	Write string

	Granted time.Time // when, by the wall clock of the client that was granted the lease
	Forget  time.Time // when it may be forgotten, by the wall clock of the client that released it; zero: never
}

// Version returns a version for a backend that has none of its own: a write that is carried out twice makes another one each time.
func (r Record) Version() string { return r.Write + "." + strconv.FormatInt(r.Token, 10) }

// InPages yields the items of names that are there, in the order of the names. It calls read for n of them at a time, and
// ends after its first error. The List of a backend that has no order of names can be made of it.
func InPages(
	ctx context.Context, read func(ctx context.Context, names []string) ([]Item, error), names []string, n int,
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for some := range slices.Chunk(names, n) {
			items, err := read(ctx, some)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range items {
				if (item.Version != "" || item.Err != nil) && !yield(item, nil) {
					return
				}
			}
		}
	}
}

// FloorName is the name of the item that holds the floor of tokens. It has a character that no name of a record can have.
const FloorName = "\x01floor"
