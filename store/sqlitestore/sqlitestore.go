package sqlitestore

import (
	"context"
	"database/sql/driver"
	"os"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"

	"modernc.org/sqlite"
)

// A Store is a handle on the records in a file. It is safe for use by many goroutines at once, and any number of
// handles in any number of processes of the host can use one file.
type Store struct {
	path       string
	clocks     clocks
	fileSystem func(path string) (fileSystem, error)
	connector  func(dsn string) (driver.Connector, error)
	patience   time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	// A caller that uses a connection has its turn; the one that opens or closes the file has both, writing first.
	writing, reading turn
	file             *file // nil while there is none to use
	missing          bool  // there was no file when it was last looked for
	hold             int64 // no new file is made before, by the clock of the one that was deleted
	holdClock        *clock
	before           os.FileInfo // of the file that was open last
	left             *remains    // what lies at the path of a file that is no more there; nil is nothing

	given atomic.Int64 // when the last lease or linger that this handle has given ends
	floor atomic.Int64 // the greatest token known of a file that was deleted

	watches *sqlshared.Watches[sight]
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)
	_ store.Chooser = (*Store)(nil)
	_ store.Pager   = (*Store)(nil)
	_ store.Pinger  = (*Store)(nil)
	_ store.Sweeper = (*Store)(nil)
	_ store.Prober  = (*Store)(nil)
)

// Open opens the file at path, or makes it with the permissions that the umask leaves; its directory must be there. It
// refuses a file of another program, one made by a newer version, and one on a file system shared between hosts (store.ErrUnusable).
// One that may not be written is fs.ErrPermission if the system says so.
func Open(path string) (*Store, error) {
	s, err := newStore(path)
	if err != nil {
		return nil, refused(err)
	}
	if err := s.start(); err != nil {
		return nil, refused(err)
	}
	return s, nil
}

// newStore is a handle on a file that has not been opened.
func newStore(path string) (*Store, error) {
	abs, err := absolute(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: abs, clocks: readableClocks(), fileSystem: fileSystemOf, connector: sqlite.NewConnector, patience: patience,
		writing: newTurn(), reading: newTurn(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches = newWatches(s.ctx)
	return s, nil
}

func (s *Store) start() error {
	f, err := s.openFile(s.ctx)
	if err != nil {
		s.cancel()
		return s.at(err)
	}
	s.file = f
	return nil
}

// Close ends the handle and its watches, after the calls in progress. The file stays.
func (s *Store) Close() error {
	s.cancel()
	s.watches.Close()
	_ = s.writing.take(background) // it ends with no context
	defer s.writing.give()
	_ = s.reading.take(background)
	defer s.reading.give()
	s.left.forget()
	if s.file != nil {
		s.file.close().forget()
		s.file = nil
	}
	return nil
}

// alive returns the reason why a call cannot begin, or nil.
func (s *Store) alive(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}

// enter waits for the turn and returns the file, opened again if need be. After it the turn must be given back.
func (s *Store) enter(ctx context.Context, t turn) (*file, error) {
	for {
		if err := t.take(ctx); err != nil {
			return nil, err
		}
		f, err := s.current(ctx, t)
		if f != nil || err != nil {
			return f, err
		}
	}
}

// current returns the file to the one that has the turn t. If it answers none it has given the turn back, and the file, if
// there is no error, has been opened again.
func (s *Store) current(ctx context.Context, t turn) (*file, error) {
	err := s.alive(ctx)
	if err != nil {
		t.give()
		return nil, err
	}
	f := s.file
	if f.check() == nil {
		return f, nil
	}
	t.give()
	return nil, s.reopen(ctx, f)
}

// view calls do with the reading connection until no lock of another process is in its way.
func (s *Store) view(ctx context.Context, do func(f *file, c *conn) error) error {
	f, err := s.enter(ctx, s.reading)
	if err != nil {
		return s.at(err)
	}
	defer s.reading.give()
	return s.look(ctx, f, f.read, do)
}

func (s *Store) look(ctx context.Context, f *file, c *conn, do func(f *file, c *conn) error) error {
	err := s.retry(ctx, func() error { return do(f, c) })
	if !harmless(err) {
		f.broken.Store(true)
	}
	return s.at(err)
}

// Ping is as in store.Pinger: it reads from the file.
func (s *Store) Ping(ctx context.Context) error {
	return s.view(ctx, func(_ *file, c *conn) error {
		_, err := c.meta()
		return err
	})
}
