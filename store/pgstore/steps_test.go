package pgstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/faults"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A wire fails one of the requests of a pool's connections.
type wire struct {
	mu    sync.Mutex
	left  int // requests until one fails; 0 is that none does
	way   wireWay
	fired bool
}

// A wireWay is how a request fails.
type wireWay int

const (
	cutBefore wireWay = iota // and the connection has ended
	cutAfter                 // the server has carried it out, and the connection has ended
	cutWithin                // so too
	byServer                 // the server refuses it
)

func (w *wire) fault(name string, way wireWay) faults.Fault {
	return faults.Fault{
		Name: name,
		Arm: func(k int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left, w.way, w.fired = k, way, false
		},
		Off: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left = 0
			return w.fired
		},
	}
}

// request reports whether a request fails, and how. spoil makes of it one that the server refuses.
func (w *wire) request(b []byte) (fails bool, way wireWay, spoiled []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 || b[0] == 'X' { // the end of a connection
		return false, 0, nil
	}
	if w.way == byServer {
		if spoiled = spoil(b); spoiled == nil {
			return false, 0, nil
		}
	}
	if w.left--; w.left > 0 {
		return false, 0, nil
	}
	w.fired = true
	return true, w.way, spoiled
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	return &wireConn{Conn: c, wire: w}, err
}

type wireConn struct {
	net.Conn
	wire *wire
	mu   sync.Mutex
	lose wireWay // what becomes of the next answer; 0 is nothing
	over bool
}

var errCut = errors.New("the connection was cut")

func (c *wireConn) Write(b []byte) (int, error) {
	fails, way, spoiled := c.wire.request(b)
	switch {
	case !fails:
		return c.Conn.Write(b)
	case way == cutBefore:
		c.Conn.Close()
		return 0, errCut
	case way == byServer:
		_, err := c.Conn.Write(spoiled)
		return len(b), err
	}
	c.mu.Lock()
	c.lose = way
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		c.Conn.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(b) // there is an answer, so the request has been carried out
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lose == 0 || err != nil:
		return n, err
	case c.lose == cutWithin:
		c.over = true
		return (n + 1) / 2, nil
	}
	c.Conn.Close()
	return 0, errCut
}

// spoil makes of the messages of a request those of one that the server refuses, or returns nil.
func spoil(b []byte) []byte {
	for at := 0; at+5 <= len(b) && b[at] != 0; {
		size := 1 + int(binary.BigEndian.Uint32(b[at+1:]))
		if at+size > len(b) {
			return nil
		}
		body := b[at+5 : at+size]
		switch b[at] {
		case 'Q':
			body = []byte("!\x00")
		case 'P': // the name of the statement, its text and the types of its parameters
			name := bytes.IndexByte(body, 0) + 1
			text := bytes.IndexByte(body[name:], 0)
			body = append(append(bytes.Clone(body[:name]), '!'), body[name+text:]...)
		case 'E': // the name of what is executed
			body = append([]byte("nothing"), body...)
		default:
			at += size
			continue
		}
		spoiled := append(bytes.Clone(b[:at+1]), binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))...)
		return append(append(spoiled, body...), b[at+size:]...)
	}
	return nil
}

// Whichever request of an operation fails, what is told of it is true, and the store works.
func TestEachStepFails(t *testing.T) {
	for name, options := range map[string][]string{"alone": nil, "shared with ShedLock": {"shedlock", "true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, w := fresh(t, server(t).URL, options...), &wire{}
			cfg, _, err := ParseURL(server(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			Prepare(cfg)
			dontCancel(cfg)
			cfg.ConnConfig.DialFunc = w.dial
			pool, err := pgxpool.NewWithConfig(background, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			handle := func(t testing.TB, cfg Config) *Store {
				s, err := New(pool, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			unmigrated := func(before string) func(t testing.TB) (s, p store.Store) {
				return func(t testing.TB) (s, p store.Store) {
					direct := open(t, server(t).URL, append([]string{"schema", newSchema()}, options...)...)
					if before != "" {
						run(t, direct.pool, "CREATE SCHEMA "+direct.tables.schema)
						run(t, direct.pool, "CREATE TABLE "+direct.tables.records+before)
						run(t, direct.pool, "INSERT INTO "+direct.tables.records+" VALUES ('theirs', '2020-01-01', '2020-01-01', 'jvm')")
					}
					return handle(t, direct.tables.cfg), direct
				}
			}
			subject := faults.Subject{
				Open:   func(t testing.TB) store.Store { return handle(t, plain.tables.cfg) },
				Plain:  plain,
				Faults: []faults.Fault{w.fault("not answered", cutAfter), w.fault("refused", byServer)},
				Complete: func(ctx context.Context, s store.Store, c store.Completion) error {
					tx, err := pool.Begin(ctx)
					if err != nil {
						return err
					}
					if err := s.(*Store).Complete(ctx, tx, c); err != nil {
						_ = tx.Rollback(ctx)
						return err
					}
					return store.AsUnknown(tx.Commit(ctx))
				},
				Fresh: map[string]func(t testing.TB) (s, plain store.Store){"nothing": unmigrated("")},
			}
			if name == "alone" {
				subject.Faults = append(subject.Faults, w.fault("not sent", cutBefore), w.fault("answered in part", cutWithin))
			}
			if plain.tables.cfg.ShedLock {
				subject.Fresh["a table of ShedLock's"] = unmigrated("(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, " +
					"locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))")
			}
			faults.Run(t, subject)
		})
	}
}
