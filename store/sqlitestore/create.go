package sqlitestore

import (
	"context"
	"fmt"
)

// create makes the tables of an empty file. Of two processes that do so at once the second finds them made. It is done
// before WAL is set, so that the file's own header says at any time whose it is.
func (s *Store) create(ctx context.Context, c *conn) error {
	empty, err := s.empty(ctx, c)
	if err != nil || !empty {
		return err
	}
	if err := s.retry(ctx, func() error { _, err := c.exec(sqlBegin); return err }); err != nil {
		return err
	}
	if empty, err = s.empty(ctx, c); err == nil && empty {
		err = s.fill(c)
	}
	if err == nil {
		err = s.retry(ctx, func() error { _, err := c.exec(sqlCommit); return err }) // readers may be in the way
	}
	if err != nil {
		_, _ = c.exec(sqlRollback)
	}
	return err
}

// empty reports whether the file has nothing in it yet; the error, that it is not ours.
func (s *Store) empty(ctx context.Context, c *conn) (empty bool, err error) {
	err = s.retry(ctx, func() error {
		empty, err = inspect(c.sql)
		return err
	})
	return empty, err
}

func (s *Store) fill(c *conn) error {
	clock := s.clocks.best()
	script := fmt.Sprintf("%s;\nPRAGMA application_id = %d;\nPRAGMA user_version = %d", sqlSchema, applicationID, schemaVersion)
	if _, err := c.sql.ExecContext(background, script); err != nil {
		return err
	}
	_, err := c.exec(sqlMetaInsert, clock.kind, clock.boot, clock.offset(), s.floor.Load())
	return err
}
