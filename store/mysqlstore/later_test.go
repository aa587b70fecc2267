package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// A limited connector opens so many connections, and then none.
type limited struct {
	driver.Connector
	left atomic.Int64
}

var errNoMore = errors.New("no more connections")

func (l *limited) Connect(ctx context.Context) (driver.Conn, error) {
	if l.left.Add(-1) < 0 {
		return nil, errNoMore
	}
	return l.Connector.Connect(ctx)
}

// What the first request of a call has done is told, though a later one, for the rows that were locked, comes to nothing.
func TestErrorOfALaterRequest(t *testing.T) {
	url := mariadb(t).URL
	direct := connect(t, url, nil)
	table := newTable(t)
	s := open(t, direct, Config{Table: table})
	ctx := context.Background()
	completed, _ := completedInTime(t, s, direct, "locked", "expired")
	out := []store.Outcome{completed[1], completed[0], acquire(t, s, claim("kept", "a"))[0]}
	for {
		if r := acquire(t, s, store.Claim{Name: "expired", Holder: "-", TTL: time.Second, Mark: -1})[0]; recordOf(t, r.Err).Free() {
			break
		}
	}
	connector, err := mysql.NewConnector(dsn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	few := &limited{Connector: connector}
	few.left.Store(1)
	db := sql.OpenDB(few)
	db.SetMaxIdleConns(-1) // one for each request
	t.Cleanup(func() { db.Close() })
	failing, err := New(db, Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { failing.Close() })
	outs, err := failing.Acquire(ctx, []store.Claim{claim("new", "b"), claim("expired", "b"), claim("expired", "c")})
	if err != nil {
		t.Fatalf("the call answered %v, although one name has been granted", err)
	}
	if outs[0].Err != nil || !errors.Is(outs[1].Err, errNoMore) || !errors.Is(outs[2].Err, errNoMore) {
		t.Errorf("%v, %v and %v, want a grant and twice %v", outs[0].Err, outs[1].Err, outs[2].Err, errNoMore)
	}
	few.left.Store(1)
	errs, err := failing.Release(ctx, []store.Release{
		{Name: "kept", Holder: "a", Token: out[2].Grant.Token}, {Name: "locked", Holder: "a", Token: out[1].Grant.Token},
	})
	if err != nil {
		t.Fatalf("the call answered %v, although one name has been released", err)
	}
	if errs[0] != nil || !errors.Is(errs[1], errNoMore) {
		t.Errorf("%v and %v, want nil and %v", errs[0], errs[1], errNoMore)
	}
	// What would have been sent after the request that failed has its error, too.
	var claims []store.Claim
	for i := range 2*maxBatch + 1 {
		claims = append(claims, claim("many/"+intLiteral(int64(i)), "b"))
	}
	few.left.Store(1)
	outs, err = failing.Acquire(ctx, claims)
	if err != nil {
		t.Fatalf("the call answered %v, although names have been granted", err)
	}
	for i, o := range outs {
		if sent := i < maxBatch; sent && o.Err != nil || !sent && !errors.Is(o.Err, errNoMore) {
			t.Fatalf("claim %d: %v", i, o.Err)
		}
	}
	few.left.Store(0)
	if _, err := failing.Acquire(ctx, []store.Claim{claim("never", "b"), claim("expired", "b")}); !errors.Is(err, errNoMore) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a call of which nothing was sent answered %v", err)
	}
}

func recordOf(t testing.TB, err error) store.Record {
	t.Helper()
	var done *store.DoneError
	if !errors.As(err, &done) {
		t.Fatalf("a claim that only reads answered %v", err)
	}
	return done.Record
}
