package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A stopper notes when each event is told, and goes on at a later instant.
type stopper struct{ told []stopped }

type stopped struct {
	event
	at time.Duration
}

func (s *stopper) Write(line []byte) (int, error) {
	next := stopped{at: fleet.Now()}
	if err := json.Unmarshal(line, &next.event); err != nil {
		return 0, err
	}
	s.told = append(s.told, next)
	for fleet.Now() <= next.at {
	}
	return len(line), nil
}

// A process may be stopped between the look at its lease and what follows, and somebody else may be granted the name and do the work: what begins
// late then is no violation.
func TestWorkBeginsWhenItsLeaseWasSeen(t *testing.T) {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for what, step := range map[proof.Kind]func(context.Context, *workload){
		proof.Element: func(ctx context.Context, w *workload) {
			if err := w.elements(ctx, rand.New(rand.NewPCG(1, 1))); err != nil {
				t.Error(err)
			}
		},
		proof.Run: func(ctx context.Context, w *workload) {
			ctx, cancel := context.WithCancel(ctx)
			if err := client.Run(ctx, soloist.Job{Name: "job", Schedule: soloist.Every(time.Millisecond), Do: func(ctx context.Context, run soloist.Run) error {
				defer cancel()
				return w.job(ctx, run)
			}}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(string(what), func(t *testing.T) {
			var stops stopper
			rec := &recorder{buf: bufio.NewWriter(io.Discard), to: json.NewEncoder(&stops)}
			step(t.Context(), &workload{client: client, rec: rec, ttl: time.Minute, epoch: time.Now(), batch: firstBatch})
			began, last := 0, stopped{}
			for _, e := range stops.told {
				if e.Kind == what && e.Result != proof.Okay { // what has an end is told of again then
					began++
					if last.Kind != proof.Belief || e.At > last.at {
						t.Errorf("%s began at %v, and what was told before it, at %v, is %v", e.Name, e.At, last.at, last.Event)
					}
				}
				last = e
			}
			if began == 0 {
				t.Errorf("nothing began: %v", stops.told)
			}
		})
	}
}

// A slowLease answers that it is held, and may have ended by the time that its answer arrives.
type slowLease struct{ asked time.Duration }

func (l *slowLease) Err() error {
	for l.asked = fleet.Now(); fleet.Now() <= l.asked; {
	}
	return nil
}

// A belief is of the instant before the lease was asked: the process may be stopped before it notes the answer.
func TestBeliefIsOfWhenTheLeaseWasAsked(t *testing.T) {
	var lease slowLease
	b := newRecorder(io.Discard).belief("a", 1, "x", 1)
	if !b.look(&lease) || b.e.At > lease.asked || b.e.Until > lease.asked {
		t.Errorf("believed from %v until %v, and the lease was asked at %v", b.e.At, b.e.Until, lease.asked)
	}
}
