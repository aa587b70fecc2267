package hazelcaststore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// groupName is the CP group that all stores share. A group of its own for each map would be an election and
// heartbeats for each.
const groupName = "soloist"

// References are what a map is with the CP Subsystem: for each name a reference to its text, with the name of the map
// before it. Every read and write of one is linearizable, by the Raft of the group.
type references struct {
	reader

	links  *links
	prefix string
	floor  atomic.Bool // whether the floor was read
}

func newReferences(client hazelcast.Config, cfg Config) *references {
	r := &references{links: newLinks(newDialer(client)), prefix: cfg.Map + ":"}
	r.namesOf, r.read = func(ctx context.Context, prefix string) ([]string, error, error) {
		names, err := r.objects(ctx, prefix)
		return names, nil, err
	}, r.Read
	return r
}

// tries is how often what changes nothing, or was not sent, is tried before its error is returned. Each pause is
// twice as long as the one before. So is what a read may take, the first time slow.
const tries = 6

// ask makes a request that changes nothing, again and again while it is not answered, or with an error that may pass.
func (ls *links) ask(ctx context.Context, doing string, m func(*link) message) (*reply, error) {
	patience, pause := slow, pause
	for try := 1; ; try++ {
		l, err := ls.get(ctx)
		if err != nil {
			return nil, err
		}
		within, cancel := context.WithTimeout(ctx, patience)
		replied, err := l.ask(within, m(l))
		cancel()
		switch {
		case err == nil:
			return replied, nil
		case ctx.Err() != nil:
			return nil, wrap(doing, ctx.Err())
		case errors.Is(err, store.ErrClosed), deniedByMember(err), try == tries:
			return nil, wrap(doing, permission(err))
		}
		l.retire() // another member may answer, and a group that was destroyed has another identity
		if rest(ctx, pause) != nil {
			return nil, wrap(doing, ctx.Err())
		}
		patience, pause = 2*patience, 2*pause
	}
}

// rest waits before another attempt. Its error is that ctx has ended.
func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deniedByMember reports whether a member has refused a request because this client may not make it.
func deniedByMember(err error) bool {
	refused, ok := errors.AsType[*memberError](err)
	return ok && slices.ContainsFunc(
		[]string{"AccessControlException", "SecurityException", "LoginException", "AuthenticationException"},
		func(class string) bool { return strings.HasSuffix(refused.class, class) },
	)
}

// permission makes an error that a member has refused a request with fs.ErrPermission.
func permission(err error) error {
	if deniedByMember(err) {
		return fmt.Errorf("%w: %w", err, fs.ErrPermission)
	}
	return err
}

// Read implements casstore.Backend.
func (r *references) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	items, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) {
		item, err := r.get(ctx, names[i])
		if err == nil && names[i] == casstore.FloorName && item.Version == "" && item.Err == nil {
			item, err = r.lay(ctx)
		}
		items[i], errs[i] = item, err
	})
	if err := cmp.Or(errs...); err != nil { // one of them is enough to read
		return nil, err
	}
	return items, nil
}

// get reads one reference.
func (r *references) get(ctx context.Context, name string) (casstore.Item, error) {
	replied, err := r.links.ask(ctx, "reading", func(l *link) message {
		return request(typeGet).group(l.group).text(r.prefix + name)
	})
	if err != nil {
		return casstore.Item{}, err
	}
	f := replied.next()
	text, ok := textOf(f.content)
	switch {
	case replied.err != nil:
		return casstore.Item{}, wrap("reading", replied.err)
	case f.flags&flagNull != 0:
		return casstore.Item{Name: name}, nil
	case !ok:
		return foreign(name, errors.New("it is no text")), nil
	}
	return itemOf(name, text), nil
}

// lay makes the floor of a group that has none: the time in microseconds, by the clock of this machine. A cluster
// whose members have all ended has forgotten its tokens, and what it grants then has greater ones, as long as clocks
// are not set back over the outage. Nothing else depends on that clock.
func (r *references) lay(ctx context.Context) (casstore.Item, error) {
	token := min(max(1, time.Now().UnixMicro()), math.MaxInt64/2)
	floor := casstore.Record{Holder: "floor", Token: token, Released: true, Write: rand.Text()}
	results, err := r.Write(ctx, []casstore.Change{{Name: casstore.FloorName, Record: &floor}})
	if err != nil {
		return casstore.Item{}, err
	}
	made := results[0].Err
	if made != nil && !errors.Is(made, casstore.ErrConflict) && !errors.Is(made, store.ErrUnknown) {
		return casstore.Item{}, fmt.Errorf("making the floor of tokens: %w", made)
	}
	item, err := r.get(ctx, casstore.FloorName) // whoever has made it
	if err == nil && item.Version == "" {
		// Without what made wraps: a read has no unknown outcome.
		why := cmp.Or(made, errors.New("the members have lost it"))
		err = fmt.Errorf("hazelcaststore: the floor of tokens was written, and is not there: %s", why.Error())
	}
	return item, err
}

// Write implements casstore.Backend.
func (r *references) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results := make([]casstore.Result, len(changes))
	parallel.Do(len(changes), flights, func(i int) { results[i] = r.change(ctx, changes[i]) })
	return results, nil
}

// change changes one reference.
func (r *references) change(ctx context.Context, c casstore.Change) casstore.Result {
	if c.Record == nil {
		return removed(r.compareAndSet(ctx, "removing", c.Name, c.Version, ""))
	}
	w, err := newWrite(c)
	if err != nil {
		return casstore.Result{Err: wrap("writing", err)}
	}
	set, err := r.compareAndSet(ctx, "writing", c.Name, c.Version, w.text)
	switch {
	case err != nil:
		return casstore.Result{Err: err}
	case set:
		return casstore.Result{Version: w.text}
	}
	now, err := r.get(ctx, c.Name)
	if err != nil {
		return casstore.Result{Err: store.AsUnknown(err)}
	}
	return w.refused(now)
}

func removed(done bool, err error) casstore.Result {
	if err == nil && !done {
		err = casstore.ErrConflict
	}
	return casstore.Result{Err: err}
}

// compareAndSet replaces a text, "" for none, once. Its error is store.ErrUnknown unless the request was not sent, or
// was refused for want of a right: the members repeat a request among themselves when their leader ends, so that any
// other error may come after it has taken effect.
func (r *references) compareAndSet(ctx context.Context, doing, name, from, to string) (bool, error) {
	pause := pause
	for try := 1; ; try++ {
		l, err := r.links.get(ctx)
		if err != nil {
			return false, err
		}
		late := time.AfterFunc(slow, l.retire)
		m := request(typeCompareAndSet).group(l.group).text(r.prefix + name).data(textData(from)).data(textData(to))
		replied, err := l.do(ctx, m)
		late.Stop()
		switch {
		case errors.Is(err, errUnsent):
			if try == tries {
				return false, wrap(doing, err)
			}
			if rest(ctx, pause) != nil {
				return false, wrap(doing, ctx.Err())
			}
			pause *= 2
			continue
		case deniedByMember(err):
			return false, wrap(doing, permission(err))
		case err != nil:
			l.retire()
			return false, store.AsUnknown(wrap(doing, err))
		case len(replied[0].content) <= atReply:
			return false, store.AsUnknown(wrap(doing, errProtocol))
		}
		return replied[0].content[atReply] != 0, nil
	}
}

// objects returns the names that were ever used, in ascending order: a reference to nothing stays. They come from the
// leader of the group as it is, and are no linearizable read; the references are read one by one afterwards. The name that
// is the whole prefix is among them, whether the leader knows it yet or not: who wants the record of one name must not miss it.
func (r *references) objects(ctx context.Context, prefix string) (names []string, err error) {
	replied, err := r.links.ask(ctx, "listing", func(l *link) message {
		return request(typeObjects, 0).group(l.group).text(refService)
	})
	if err != nil {
		return nil, err
	}
	for replied.begin(); !replied.ends(); {
		name, ours := strings.CutPrefix(string(replied.next().content), r.prefix)
		if ours && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if replied.err != nil {
		return nil, wrap("listing", replied.err)
	}
	if prefix != "" {
		names = append(names, prefix)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Close implements casstore.Backend.
func (r *references) Close() error { return r.links.close() }
