package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
)

// An elementForm is one way to process elements.
type elementForm struct{ workers, batch int }

func (f elementForm) String() string {
	if f.batch == 1 {
		return fmt.Sprintf("%d workers, one by one", f.workers)
	}
	return fmt.Sprintf("%d workers, batches of %d", f.workers, f.batch)
}

var elementForms = []elementForm{{1, 1}, {4, 1}, {16, 1}, {1, 1000}, {4, 1000}, {16, 1000}}

// Elements is case M: workers of one client claim elements, process them by doing nothing, and record them as processed.
func Elements(ctx context.Context, cfg Config) ([]Result, error) {
	var results []Result
	n := len(elementForms)
	whole := cfg.For
	for i, form := range elementForms {
		cfg.For = max(whole/time.Duration(n), 50*time.Millisecond)
		result, err := cfg.part(i, n).elements(ctx, form, i)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// elements works for the time of cfg, or until there is no element left.
func (cfg Config) elements(ctx context.Context, form elementForm, job int) (Result, error) {
	var result Result
	err := cfg.on(ctx, soloist.Options{}, func(r *replica) error {
		e := r.Elements(fmt.Sprint("load-", job), soloist.ElementsOptions{Retain: time.Second}) // for Clean
		var next, processed atomic.Int64
		loop := cfg.loop(form.workers, form.String())
		loop.Warm = 0
		cfg.Mark()
		s, err := loop.Run(ctx, func(ctx context.Context, _ int) error {
			last := next.Add(int64(form.batch))
			if last > int64(max(cfg.Size.Elements, form.batch)) {
				return ErrEnough
			}
			var err error
			if form.batch == 1 {
				err = e.Process(ctx, strconv.FormatInt(last, 10), func(context.Context, *soloist.Element) error { return nil })
			} else {
				err = processBatch(ctx, e, last, form.batch)
			}
			if err == nil {
				processed.Add(int64(form.batch))
			}
			return err
		})
		cfg.Mark()
		if err != nil {
			return err
		}
		s.Operations = processed.Load()
		result = s.Result("M", form.String(), "element", r.counter.Requests.Load())
		return nil
	})
	return result, err
}

// processBatch claims n elements in one request and records them in another.
func processBatch(ctx context.Context, e *soloist.Elements, last int64, n int) error {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.FormatInt(last-int64(i), 10)
	}
	claimed, err := e.ClaimAll(ctx, ids)
	if err != nil {
		return err
	}
	elements := make([]*soloist.Element, n)
	for i, c := range claimed {
		if c.Err != nil {
			return c.Err
		}
		elements[i] = c.Element
	}
	return errors.Join(e.DoneAll(elements)...)
}
