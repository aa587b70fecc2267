package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// How much is in one request: ZooKeeper takes 1 MiB, of which a half leaves room for what it adds.
const (
	mostChanges = 500
	mostBytes   = 512 << 10
)

// Write implements casstore.Backend.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	results, err := call(ctx, b, func(conn *zk.Conn) ([]casstore.Result, error) {
		results, chunks := b.divide(changes)
		parallel.Do(len(chunks), flights, func(i int) { b.write(ctx, conn, chunks[i]) })
		return results, nil
	})
	if err != nil && errors.Is(err, errCutOff) {
		err = store.AsUnknown(err)
	}
	return results, wrap("writing", err)
}

// A pending is a change with the place for its result.
type pending struct {
	change
	result *casstore.Result
}

// divide returns the results to be, and the changes as they fit into requests.
func (b *backend) divide(changes []casstore.Change) (results []casstore.Result, chunks [][]pending) {
	results = make([]casstore.Result, len(changes))
	size := 0
	for i, c := range changes {
		made, err := b.change(c)
		if err != nil {
			results[i].Err = wrap("writing", err)
			continue
		}
		if len(chunks) == 0 || len(chunks[len(chunks)-1]) == mostChanges || size+made.size > mostBytes {
			chunks, size = append(chunks, nil), 0
		}
		last := &chunks[len(chunks)-1]
		*last = append(*last, pending{made, &results[i]})
		size += made.size
	}
	return results, chunks
}

// write carries out changes in one request. ZooKeeper carries out all of them or none, so write repeats the request without those that were refused.
func (b *backend) write(ctx context.Context, conn *zk.Conn, rest []pending) {
	for len(rest) > 0 {
		if err := ctx.Err(); err != nil {
			fail(rest, wrap("writing", err))
			return
		}
		ops, owners := flat(rest)
		session := conn.SessionID()
		replies, err := conn.Multi(ops...)
		i := refused(replies, len(ops))
		switch {
		case err == nil && credible(ops, replies):
			for _, p := range rest {
				p.succeed()
			}
			return
		case i < 0:
			fail(rest, unsure("writing", b.conns.explain(err)))
			return
		}
		rest = b.without(ctx, conn, session, rest, owners[i], ops[i], replies[i].Error)
	}
}

// flat returns the operations of changes, and the index of the change of each.
func flat(rest []pending) (ops []any, owners []int) {
	for i, p := range rest {
		for _, op := range p.ops {
			ops, owners = append(ops, op), append(owners, i)
		}
	}
	return ops, owners
}

// refused returns the index of the operation because of which nothing was carried out, and -1 if the replies do not report one.
func refused(replies []zk.MultiResponse, n int) int {
	if len(replies) != n {
		return -1
	}
	for i, r := range replies {
		if r.Error != nil {
			return i
		}
	}
	return -1
}

// credible reports whether replies can be those to operations that were carried out.
func credible(ops []any, replies []zk.MultiResponse) bool {
	if len(replies) != len(ops) {
		return false
	}
	for i, op := range ops {
		if set, ok := op.(*zk.SetDataRequest); ok && (replies[i].Stat == nil || replies[i].Stat.Version != set.Version+1) {
			return false
		}
	}
	return true
}

// fail ends changes with an error.
func fail(rest []pending, err error) {
	for _, p := range rest {
		p.result.Err = err
	}
}

func (p pending) succeed() {
	if p.Record != nil {
		p.result.Version = p.becomes.String()
	}
}

// without ends the changes that cannot be carried out, after ZooKeeper has refused an operation of one of them, and returns the others.
func (b *backend) without(ctx context.Context, conn *zk.Conn, session int64, rest []pending, of int, op any, why error) []pending {
	create, _ := op.(*zk.CreateRequest)
	switch {
	case errors.Is(why, zk.ErrNoNode) && create != nil:
		return b.makeBuckets(conn, rest)
	case errors.Is(why, zk.ErrBadVersion), errors.Is(why, zk.ErrNoNode), errors.Is(why, zk.ErrNodeExists):
		return b.conflicts(ctx, conn, session, rest, of)
	case len(rest) > 1: // a node that has something wrong affects its own name only
		parallel.Do(len(rest), flights, func(i int) { b.write(ctx, conn, rest[i:i+1]) })
		return nil
	case errors.Is(why, zk.ErrNotEmpty):
		why = errors.New("the node has another child than its own: something else has made it; delete that")
	}
	fail(rest, wrap("writing "+b.tree.node(rest[0].Name), why))
	return nil
}

// makeBuckets makes the buckets that changes may need, and their parents. It ends the changes whose bucket cannot be
// made, and returns the others.
func (b *backend) makeBuckets(conn *zk.Conn, rest []pending) (others []pending) {
	tried := map[string]error{}
	for _, p := range rest {
		bucket := b.tree.bucket(p.Name)
		err, known := tried[bucket]
		if p.makes && !known {
			err = wrap("making the node "+bucket, b.conns.explain(b.make(conn, bucket)))
			tried[bucket] = err
		}
		if p.makes && err != nil {
			p.result.Err = err
			continue
		}
		others = append(others, p)
	}
	return others
}

// make makes a node, and before it the parents that are not there. The nodes stay.
func (b *backend) make(conn *zk.Conn, node string) error {
	_, err := conn.Create(node, nil, 0, b.acl)
	if errors.Is(err, zk.ErrNoNode) && node != "/" {
		if err := b.make(conn, path.Dir(node)); err != nil {
			return err
		}
		_, err = conn.Create(node, nil, 0, b.acl)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	if errors.Is(err, zk.ErrNoAuth) { // ZooKeeper looks at the right first, and then whether the node is there
		if there, _, failed := conn.Exists(node); failed == nil && there {
			return nil
		}
	}
	return err
}

// conflicts ends the changes of nodes that are not as they were, and returns the others. The refused one is not among them in any case. In the session of
// the refused request the server has carried out all that came before it, so it need not catch up.
func (b *backend) conflicts(ctx context.Context, conn *zk.Conn, session int64, rest []pending, of int) (others []pending) {
	items, errs := b.readAll(ctx, conn, names(rest))
	if conn.SessionID() != session {
		fail(rest, casstore.ErrConflict) // what was read may be old
		return nil
	}
	for i, p := range rest {
		switch is := items[i]; {
		case errs[i] != nil && i == of:
			p.result.Err = casstore.ErrConflict
		case errs[i] != nil:
			p.result.Err = errs[i] // it was not written, and is not known either
		case i == of && is.Version == p.Version && is.Err == nil && p.Version != "":
			p.result.Err = fmt.Errorf("zkstore: the node of %q has lost its child: something else has deleted it; delete the node when nobody holds the name", p.Name)
		case i == of || is.Version != p.Version || is.Err != nil:
			*p.result = casstore.Result{Err: casstore.ErrConflict, Current: &is}
		default:
			others = append(others, p)
		}
	}
	return others
}

func names(all []pending) []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return names
}

// unsure is wrap for a write. Its outcome is known only if it was not sent, or refused. zk.ErrShortBuffer may mean that it was not sent, or that its reply is cut short.
func unsure(doing string, err error) error {
	if err == nil {
		err = errors.New("ZooKeeper's reply is not one to the request")
	}
	if wrapped := wrap(doing, err); errors.Is(err, zk.ErrNoServer) || errors.Is(wrapped, fs.ErrPermission) {
		return wrapped
	}
	return store.AsUnknown(wrap(doing, err))
}
