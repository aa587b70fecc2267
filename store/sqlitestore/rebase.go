package sqlitestore

import (
	"context"
	"fmt"
)

// settle sets f.clock to the clock that the file was created with, and converts the times in the file if they are of another boot.
func (s *Store) settle(ctx context.Context, f *file) error {
	var m meta
	err := s.retry(ctx, func() (err error) {
		m, err = f.write.meta()
		return err
	})
	if err != nil {
		return err
	}
	if f.clock, err = s.clocks.kept(m.clock); err != nil || f.clock.boot == m.boot {
		return err
	}
	if err := s.retry(ctx, func() error { _, err := f.write.exec(sqlBegin); return err }); err != nil {
		return err
	}
	if err = f.rebase(); err == nil {
		_, err = f.write.exec(sqlCommit)
	}
	if err != nil {
		_, _ = f.write.exec(sqlRollback)
		return fmt.Errorf("after the reboot: %w", err)
	}
	return nil
}

// rebase moves the times in the file from the clock of an earlier boot to this one's. What both have in common is the
// wall clock alone.
func (f *file) rebase() error {
	m, err := f.write.meta()
	if err != nil || m.boot == f.clock.boot {
		return err
	}
	offset := f.clock.offset()
	if _, err := f.write.exec(sqlRebaseRecords, max(min(m.wall-offset, farthest), -farthest), f.clock.now()); err != nil {
		return err
	}
	_, err = f.write.exec(sqlRebaseMeta, f.clock.boot, offset)
	return err
}

// farthest is how far times are moved at most, so that no sum in the statement is too large for an integer.
const farthest = 4e18
