package sim

import (
	"maps"
	"slices"
)

// Shrink looks for the smallest plan that still fails: fewer replicas, faults and operations. It tries some hundred plans at most.
func Shrink(plan Plan, fails func(Plan) ([]string, bool)) Plan {
	s := &shrinker{fails: fails, left: 400}
	fired, ok := fails(plan)
	if !ok {
		return plan
	}
	s.best, s.fired = plan, fired
	for again := true; again && s.left > 0; {
		again = s.faults() || s.work()
	}
	return s.best
}

type shrinker struct {
	fails func(Plan) (fired []string, failed bool)
	best  Plan
	fired []string // the faults of the best
	left  int
}

// try takes over a plan that still fails.
func (s *shrinker) try(p Plan) bool {
	if s.left--; s.left < 0 {
		return false
	}
	fired, failed := s.fails(p)
	if failed {
		s.best, s.fired = p, fired
	}
	return failed
}

// faults leaves out faults: half of them, then a quarter, and so on.
func (s *shrinker) faults() (smaller bool) {
	for size := len(s.fired); size >= 1; size /= 2 {
		for begin := 0; begin < len(s.fired); {
			p := s.best
			p.Without = maps.Clone(p.Without)
			if p.Without == nil {
				p.Without = map[string]bool{}
			}
			for _, key := range s.fired[begin:min(begin+size, len(s.fired))] {
				p.Without[key] = true
			}
			if s.try(p) {
				smaller = true
			} else {
				begin += size
			}
		}
	}
	return smaller
}

// work makes the fleet and what it does smaller.
func (s *shrinker) work() (smaller bool) {
	for _, change := range []func(*Plan){
		func(p *Plan) { p.fewer(p.Replicas / 2) },
		func(p *Plan) { p.fewer(p.Replicas - 1) },
		func(p *Plan) { p.Ops-- },
		func(p *Plan) { p.Names-- },
		func(p *Plan) { p.Drift = make([]float64, len(p.Drift)) },
		func(p *Plan) { p.Sweeps = false },
		func(p *Plan) { p.Lag = 0 },
		func(p *Plan) { p.Retain = 0 },
		func(p *Plan) { p.Commits = 0 },
		func(p *Plan) { p.Retries = false },
		func(p *Plan) { p.More = p.More[:max(0, len(p.More)-1)] },
		func(p *Plan) { p.Job.Person = false },
		func(p *Plan) { p.Job.Fails = 0 },
		func(p *Plan) { p.Job.AtLeast = 0 },
		func(p *Plan) { p.Job.Jitter = 0 },
	} {
		p := s.best
		change(&p)
		if p.Ops < 1 || p.Names < 1 || p.Replicas < 1 || p.same(s.best) {
			continue
		}
		smaller = s.try(p) || smaller
	}
	return smaller
}

// fewer leaves out the last replicas.
func (p *Plan) fewer(n int) {
	p.Replicas = n
	p.Suspends = slices.DeleteFunc(slices.Clone(p.Suspends), func(s Suspend) bool { return s.Replica >= n })
	p.Cuts = slices.DeleteFunc(slices.Clone(p.Cuts), func(c Cut) bool { return c.Replica >= n })
	p.Stops = slices.DeleteFunc(slices.Clone(p.Stops), func(s Stop) bool { return s.Replica >= n })
	p.Crashes = slices.DeleteFunc(slices.Clone(p.Crashes), func(c Crash) bool { return c.Replica >= n })
}

func (p *Plan) same(o Plan) bool {
	return p.Replicas == o.Replicas && p.Ops == o.Ops && p.Names == o.Names && p.Sweeps == o.Sweeps && p.Lag == o.Lag && p.Retain == o.Retain && p.Commits == o.Commits && p.Retries == o.Retries && p.Job == o.Job && slices.Equal(p.More, o.More) && slices.Equal(p.Drift, o.Drift)
}
