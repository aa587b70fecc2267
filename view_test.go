package soloist_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A record that something else has written over does not hide the others from people: the error names it, and comes last.
func TestListsShowWhatCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		do := func(context.Context, soloist.Run) error { return nil }
		stop := start(t, a, soloist.Job{Name: "first", Schedule: soloist.Every(time.Minute), Do: do}, soloist.Job{Name: "second", Schedule: soloist.Every(time.Minute), Do: do},
			soloist.Job{Name: "third", Schedule: soloist.Every(time.Minute), Do: do})
		time.Sleep(90 * time.Second)
		stop()
		if err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { return errors.New("paper jam") }); err == nil {
			t.Fatal("no error")
		}
		admin := b.Admin()
		if err := admin.Pause(background, "third", "a test"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"job/first", "control/second", "element/invoices/0"} {
			overwrite(t, s, name, "garbage")
		}
		jobs, err := collect(admin.Jobs(background))
		if len(jobs) != 3 || err == nil || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), `"second"`) {
			t.Errorf("%d jobs, %v; want all three, and an error that names the first two", len(jobs), err)
		}
		if third, err := admin.Job(background, "third"); err != nil || third.Paused == nil || len(third.Runs) == 0 {
			t.Errorf("third: %+v, %v", third, err)
		}
		elements, err := collect(admin.Elements(background, "invoices"))
		if len(elements) != 2 || err == nil || !strings.Contains(err.Error(), `"0"`) {
			t.Errorf("%d elements, %v; want both, and an error that names the first", len(elements), err)
		}
	})
}
