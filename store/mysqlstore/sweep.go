package mysqlstore

import (
	"context"
	"database/sql"
	"strings"
)

const sweepBatch = 1000 // records forgotten in one transaction, so that claims of new names need not wait long

// Sweep is as in store.Sweeper. It looks for what may be forgotten without a lock.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.alive(ctx); err != nil {
		return 0, s.explain(err)
	}
	total := 0
	for total < limit {
		count := min(limit-total, sweepBatch)
		names, err := look(ctx, s, s.text(sqlSweepFind, fill{"count": intLiteral(int64(count))}), scanName)
		if err != nil || len(names) == 0 {
			return total, err
		}
		n, err := s.forget(ctx, names)
		total += n
		if err != nil || n == 0 { // what is left is locked by others
			return total, err
		}
	}
	return total, nil
}

func scanName(rows *sql.Rows) (name string, err error) { return name, rows.Scan(&name) }

// forget deletes those of the names that may still be forgotten, and keeps the greatest of their tokens. It locks the floor first: claims
// of names that have no row wait for it, and then know of all that has been forgotten.
func (s *Store) forget(ctx context.Context, names []string) (n int, err error) {
	err = s.transact(ctx, func(conn *sql.Conn) error {
		n, err = s.forgetOn(ctx, conn, names)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) forgetOn(ctx context.Context, conn *sql.Conn, names []string) (int, error) {
	var floor int64
	if err := conn.QueryRowContext(ctx, s.text(sqlSweepFloor, nil)).Scan(&floor); err != nil {
		return 0, err
	}
	rows, err := conn.QueryContext(ctx, s.text(sqlSweepLock, fill{"names": nameList(names)}))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var locked []string
	for rows.Next() {
		var name string
		var token int64
		if err := rows.Scan(&name, &token); err != nil {
			return 0, err
		}
		locked = append(locked, name)
		floor = max(floor, token)
	}
	if err := rows.Err(); err != nil || len(locked) == 0 {
		return 0, err
	}
	for _, statement := range []string{
		s.text(sqlSweepForget, fill{"names": nameList(locked)}),
		s.text(sqlSweepRaise, fill{"floor": intLiteral(floor)}),
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return 0, err
		}
	}
	return len(locked), nil
}

func nameList(names []string) string {
	literals := make([]string, len(names))
	for i, name := range names {
		literals[i] = bytesLiteral(name)
	}
	return strings.Join(literals, ", ")
}
