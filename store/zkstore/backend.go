package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// A backend is the nodes below one path.
type backend struct {
	conns       conns
	tree        tree
	acl         []zk.ACL
	lastVersion int32

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // requests, some of which nobody waits for any more
}

// flights is how many reads of one call are under way at once, over the same connection.
const flights = 64

// errCutOff is that a context has ended while a request was under way.
var errCutOff = errors.New("no reply yet")

// call makes requests, and returns at the end of ctx without waiting for the replies: the client of ZooKeeper knows no contexts. The function may still run
// then, so it must change nothing that the caller uses but what it returns.
func call[T any](ctx context.Context, b *backend, request func(*zk.Conn) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var none T
	conn, err := b.conns.get(ctx)
	if err != nil {
		return none, err
	}
	replied := make(chan reply, 1)
	if !b.background(func() {
		value, err := request(conn)
		replied <- reply{value, err}
	}) {
		return none, store.ErrClosed
	}
	select {
	case r := <-replied:
		return r.value, b.conns.explain(r.err)
	case <-ctx.Done():
		return none, b.conns.explain(fmt.Errorf("%w: %w", errCutOff, ctx.Err()))
	}
}

// background runs a function in a goroutine that Close waits for. It returns false if the backend is closed.
func (b *backend) background(do func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.calls.Go(do)
	}
	return !b.closed
}

// Close implements casstore.Backend.
func (b *backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.conns.close()
	b.calls.Wait()
	return nil
}

// Read implements casstore.Backend. The server that the client is connected to may lag behind the others. So it catches up with the leader first.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	items, err := call(ctx, b, func(conn *zk.Conn) ([]casstore.Item, error) {
		var items []casstore.Item
		err := b.caughtUp(ctx, conn, func() error {
			var errs []error
			items, errs = b.readAll(ctx, conn, names)
			return cmp.Or(errs...)
		})
		return items, err
	})
	return items, wrap("reading", err)
}

// caughtUp has the server that the client is connected to catch up with the leader, and then reads from it, both in one session. The client keeps requests that
// were not sent for its next connection. In the same session no server accepts it that knows less than the last one; in another session the server may lag behind.
func (b *backend) caughtUp(ctx context.Context, conn *zk.Conn, read func() error) error {
	for ctx.Err() == nil {
		session := conn.SessionID() // 0 before the first one
		if _, err := conn.Sync(b.tree.root); err != nil {
			return err
		}
		if conn.SessionID() != session {
			continue
		}
		if err := read(); err != nil || conn.SessionID() == session {
			return err
		}
	}
	return ctx.Err()
}

// readAll reads nodes.
func (b *backend) readAll(ctx context.Context, conn *zk.Conn, names []string) (items []casstore.Item, errs []error) {
	items, errs = make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			items[i], errs[i] = b.read(conn, names[i])
		}
	})
	return items, errs
}

func (b *backend) read(conn *zk.Conn, name string) (casstore.Item, error) {
	data, stat, err := conn.Get(b.tree.node(name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return casstore.Item{Name: name}, nil
	case errors.Is(err, zk.ErrNoAuth):
		return casstore.Item{Name: name, Err: wrap("reading "+b.tree.node(name), err)}, nil
	case err != nil:
		return casstore.Item{}, wrap("reading", err)
	}
	return itemOf(name, data, stat), nil
}

// page is how many nodes a list reads at once.
const page = 500

// List implements casstore.Backend. It reads all names, and then the nodes, some at a time: ZooKeeper has no order of names.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		names, err := b.names(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, err)
			return
		}
		casstore.InPages(ctx, b.Read, names, page)(yield)
	}
}

// names returns the names that begin with a prefix, in ascending order.
func (b *backend) names(ctx context.Context, prefix string) ([]string, error) {
	found, err := call(ctx, b, func(conn *zk.Conn) (found []string, err error) {
		err = b.caughtUp(ctx, conn, func() error {
			found, err = b.allNames(ctx, conn)
			return err
		})
		return found, err
	})
	if err != nil {
		return nil, wrap("listing", err)
	}
	found = slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(found)
	return found, nil
}

// allNames returns the names in all buckets.
func (b *backend) allNames(ctx context.Context, conn *zk.Conn) ([]string, error) {
	buckets, err := b.buckets(conn)
	if err != nil {
		return nil, err
	}
	found, errs := make([][]string, len(buckets)), make([]error, len(buckets))
	parallel.Do(len(buckets), flights, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			found[i], errs[i] = b.namesIn(conn, buckets[i])
		}
	})
	return slices.Concat(found...), cmp.Or(errs...)
}

// buckets returns the names of the buckets that are there, in ascending order.
func (b *backend) buckets(conn *zk.Conn) ([]string, error) {
	children, _, err := conn.Children(b.tree.root)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	children = slices.DeleteFunc(children, func(child string) bool { return !bucketName.MatchString(child) })
	slices.Sort(children)
	return children, err
}

// namesIn returns the names in a bucket, in ascending order. Nodes that are no names' are left out.
func (b *backend) namesIn(conn *zk.Conn, bucket string) (names []string, err error) {
	children, _, err := conn.Children(b.tree.root + "/" + bucket)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for _, child := range children {
		if name, ok := unescape(child); ok && b.tree.bucket(name) == b.tree.root+"/"+bucket {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Walk implements casstore.Backend. The order is that of the buckets, and of the names in a bucket. The cursor is the bucket and the last name.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	p, err := call(ctx, b, func(conn *zk.Conn) (part, error) { return b.walk(conn, cursor, n) })
	if err == nil && len(p.names) > 0 {
		items, err = b.Read(ctx, p.names)
	}
	if err != nil {
		return nil, "", wrap("walking", err)
	}
	items = slices.DeleteFunc(items, func(i casstore.Item) bool { return i.Version == "" && i.Err == nil })
	return append(items, p.broken...), p.next, nil
}

// A part is names of a walk, and the cursor after them. A bucket that the user may not read, which is in broken, must
// not keep those behind it from being walked.
type part struct {
	names  []string
	broken []casstore.Item
	next   string
}

func (b *backend) walk(conn *zk.Conn, cursor string, n int) (p part, err error) {
	buckets, err := b.buckets(conn)
	if err != nil {
		return part{}, err
	}
	in, after, _ := strings.Cut(cursor, "/")
	for _, bucket := range buckets {
		if bucket < in {
			continue
		}
		all, err := b.namesIn(conn, bucket)
		if errors.Is(err, zk.ErrNoAuth) {
			err = wrap("reading "+b.tree.root+"/"+bucket, err)
			p.broken = append(p.broken, casstore.Item{Name: bucket, Err: err})
			continue
		}
		if err != nil {
			return part{}, err
		}
		for _, name := range all {
			if bucket == in && name <= after {
				continue
			}
			if len(p.names) == n {
				return p, nil
			}
			p.names, p.next = append(p.names, name), bucket+"/"+name
		}
	}
	p.next = ""
	return p, nil
}
