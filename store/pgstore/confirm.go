package pgstore

import (
	"context"
	"errors"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

// confirm makes sure of what is about to be told as done by an earlier request. Where commits wait for a standby, what is seen of one that
// the server has stopped waiting for, since somebody cancelled it, would be lost in a failover. A commit after it is on the standby only
// together with it. An error is ErrUnknown. CockroachDB shows nothing that can be lost.
func (s *Store) confirm(ctx context.Context) error {
	if s.tables.cfg.Dialect == CockroachDB {
		return nil
	}
	_, err := change(ctx, s, s.sql.confirm, nil, func(pgx.Rows) (struct{}, error) { return struct{}{}, nil })
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		return store.AsUnknown(err) // whatever became of this request, the earlier one has done something
	}
	return err
}
