package cassandrastore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// flights is how many requests of one batch are under way at once. Each row is its own partition, and a lightweight
// transaction or a SERIAL read is about one partition.
const flights = 16

// page is how many rows a list reads at once.
const page = 200

// A backend is the rows of one table.
type backend struct {
	sessions sessions
	cfg      Config
	cql      script
	guard    guard
}

// session returns the session, after a look at the table.
func (b *backend) session(ctx context.Context) (*gocql.Session, error) {
	session, err := b.sessions.get(ctx)
	if err != nil {
		return nil, wrap("connecting", err)
	}
	return session, b.guard.check(ctx, b, session)
}

// query is a request that is sent once: after one whose outcome is unknown, the outcome of its repetition would hide that.
func query(session *gocql.Session, consistency gocql.Consistency, cql string, values ...any) *gocql.Query {
	return session.Query(cql, values...).Consistency(consistency).RetryPolicy(nil).Idempotent(false)
}

// Read implements casstore.Backend.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	session, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	items, errs := make([]casstore.Item, len(names)), make([]error, len(names))
	parallel.Do(len(names), flights, func(i int) { items[i], errs[i] = b.read(ctx, session, names[i]) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return items, nil
}

// read reads a row at SERIAL, and again while it is contended.
func (b *backend) read(ctx context.Context, session *gocql.Session, name string) (item casstore.Item, err error) {
	uncontended(ctx, func() bool {
		err = connected(ctx, func() (err error) { item, err = b.readOnce(ctx, session, name); return err })
		return contended(err)
	})
	return item, err
}

func (b *backend) readOnce(ctx context.Context, session *gocql.Session, name string) (casstore.Item, error) {
	rows := query(session, b.cfg.serial(), b.cql.read, name).IterContext(ctx)
	var r row
	found := rows.Scan(r.into(rows.Columns())...)
	if err := rows.Close(); err != nil {
		return casstore.Item{}, wrap("reading", err)
	}
	if !found {
		return casstore.Item{Name: name}, nil
	}
	return r.item(), nil
}

// Write implements casstore.Backend.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	session, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]casstore.Result, len(changes))
	parallel.Do(len(changes), flights, func(i int) { results[i] = b.write(ctx, session, changes[i]) })
	return results, nil
}

// write changes one row, and tries again while it is contended and has had no effect.
func (b *backend) write(ctx context.Context, session *gocql.Session, c casstore.Change) (result casstore.Result) {
	uncontended(ctx, func() bool {
		err := connected(ctx, func() error { result = b.writeOnce(ctx, session, c); return result.Err })
		if !contended(err) {
			return false
		}
		now, err := b.read(ctx, session, c.Name)
		if err != nil || now.Err != nil {
			return false
		}
		var again bool
		result, again = settle(c, now, result.Err)
		return again
	})
	return result
}

func (b *backend) writeOnce(ctx context.Context, session *gocql.Session, c casstore.Change) casstore.Result {
	var cql string
	var parameters []any
	switch {
	case c.Record == nil:
		cql, parameters = b.cql.remove, []any{c.Name, c.Version}
	case c.Version == "":
		cql, parameters = b.cql.insert, values(c)
	default:
		cql, parameters = b.cql.update, append(values(c), c.Version)
	}
	// The columns of the reply are not always the same, so it must describe them.
	rows := query(session, b.cfg.quorum(), cql, parameters...).SerialConsistency(b.cfg.serial()).NoSkipMetadata().IterContext(ctx)
	var r row
	rows.Scan(r.into(rows.Columns())...)
	switch err := rows.Close(); {
	case err != nil:
		return casstore.Result{Err: unsure("writing", err)}
	case r.applied == nil:
		return casstore.Result{Err: unsure("writing", errNoReply)}
	case !*r.applied && c.Record != nil && r.version != nil: // it met this row
		r.name = &c.Name // which the reply to an update lacks
		item := r.item()
		return casstore.Result{Err: casstore.ErrConflict, Current: &item}
	case !*r.applied:
		return casstore.Result{Err: casstore.ErrConflict}
	case c.Record == nil:
		return casstore.Result{}
	}
	return casstore.Result{Version: versionAfter(c)}
}

// List implements casstore.Backend. It reads the whole table, and sorts what it found: partitions have no order of names.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		items, err := b.list(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, err)
			return
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func (b *backend) list(ctx context.Context, prefix string) ([]casstore.Item, error) {
	session, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	items, err := scan(query(session, b.cfg.quorum(), b.cql.list).PageSize(page).IterContext(ctx))
	if err != nil {
		return nil, wrap("listing", err)
	}
	items = slices.DeleteFunc(items, func(i casstore.Item) bool { return !strings.HasPrefix(i.Name, prefix) })
	slices.SortFunc(items, func(a, b casstore.Item) int { return strings.Compare(a.Name, b.Name) })
	return items, nil
}

// Walk implements casstore.Backend. The cursor is the name of the last row.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	session, err := b.session(ctx)
	if err != nil {
		return nil, "", err
	}
	q := query(session, b.cfg.quorum(), b.cql.begin, n)
	if cursor != "" {
		q = query(session, b.cfg.quorum(), b.cql.walk, cursor, n)
	}
	if items, err = scan(q.IterContext(ctx)); err != nil {
		return nil, "", wrap("looking for what may be forgotten", err)
	}
	if len(items) == n {
		next = items[n-1].Name
	}
	return items, next, nil
}

// scan reads all rows of a reply.
func scan(rows *gocql.Iter) (items []casstore.Item, err error) {
	columns := rows.Columns()
	for {
		var r row
		if !rows.Scan(r.into(columns)...) {
			return items, rows.Close()
		}
		items = append(items, r.item())
	}
}

// Close implements casstore.Backend.
func (b *backend) Close() error { return b.sessions.close() }
