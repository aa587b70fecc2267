package pgstore

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestFillThatIsLate: a statement that reaches the server after the deadline of its request makes no record. One that was held up could else bring back what
// was made and forgotten since.
func TestFillThatIsLate(t *testing.T) {
	s := fresh(t, server(t).URL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	until, err := s.deadline(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if none, err := s.deadline(context.Background()); err != nil || none != math.MaxInt64 {
		t.Errorf("without a deadline: %d, %v", none, err)
	}
	hour := time.Hour.Microseconds()
	for name, test := range map[string]struct {
		until int64
		made  bool
	}{"late": {until - hour, false}, "in time": {until, true}} {
		rows, err := change(t.Context(), s, s.sql.fill, []any{[]string{name}, []int64{7}, [][]byte{nil}, []*int64{nil}, test.until}, scanText)
		if err != nil || (len(rows) == 1) != test.made {
			t.Errorf("%s: made %q, %v", name, rows, err)
		}
	}
	made, err := s.Fill(ctx, []store.Filling{{Name: "late", Mark: 7, Retain: store.Forever}})
	if err != nil || !made[0] {
		t.Errorf("what was late has a record: %v, %v", made, err)
	}
}

// TestFillByTheClockOfTheServer: the deadline of a request counts by the server's clock, however far that is from this machine's.
func TestFillByTheClockOfTheServer(t *testing.T) {
	admin := admin(t, server(t).URL)
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		schema := newSchema()
		shifted := schema + "_clock" // its function stands before the server's own
		run(t, admin, "CREATE SCHEMA "+shifted)
		run(t, admin, fmt.Sprintf("CREATE FUNCTION %s.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "+
			"$$SELECT pg_catalog.clock_timestamp() + make_interval(secs => %d)$$", shifted, int(ahead.Seconds())))
		s := fresh(t, server(t).URL, "schema", schema, "search_path", shifted+",pg_catalog")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		at, _ := ctx.Deadline()
		asked := time.Now()
		until, err := s.deadline(ctx)
		early, took := at.Sub(time.UnixMicro(until).Add(-ahead)), time.Since(asked)
		if err != nil || early < -time.Microsecond || early > took+time.Microsecond { // it is earlier by the time in which the server answered
			t.Errorf("with a clock that is %v ahead the deadline is %v too early, %v", ahead, early, err)
		}
		made, err := s.Fill(ctx, []store.Filling{{Name: "name", Mark: 7, Retain: store.Forever}})
		if err != nil || !made[0] {
			t.Errorf("with a clock that is %v ahead: made %v, %v", ahead, made, err)
		}
	}
}
