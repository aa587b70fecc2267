package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// defaultParallel is how many commands one soloist cron runs at once unless it is told: many wait for something other
// than a processor.
func defaultParallel() int { return 16 * runtime.GOMAXPROCS(0) }

// slots bound how many commands run at once. Those that wait for one get it in the order of their scheduled times, so
// that no job has to wait for the second run of another.
type slots struct {
	mu   sync.Mutex
	free int
	line []*place // by due
}

// A place is that of a run in the line.
type place struct {
	due   time.Time
	since time.Time
	turn  chan struct{} // closed when it has a slot
}

func newSlots(n int) *slots { return &slots{free: n} }

// take waits for a slot, until ctx ends: then it returns the cause.
func (s *slots) take(ctx context.Context, due time.Time) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	p := &place{due: due, since: time.Now(), turn: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(s.line, due, func(q *place, due time.Time) int {
		if q.due.After(due) {
			return 1
		}
		return -1 // behind all that are due at the same time
	})
	s.line = slices.Insert(s.line, at, p)
	s.mu.Unlock()
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
	}
	if !s.leave(p) { // its turn has come meanwhile
		s.give()
	}
	return context.Cause(ctx)
}

// leave takes a place out of the line and reports whether it was there.
func (s *slots) leave(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.line, p)
	if i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	}
	return i >= 0
}

// give gives a slot back.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) == 0 {
		s.free++
		return
	}
	close(s.line[0].turn)
	s.line = slices.Delete(s.line, 0, 1)
}

// waiting returns how many runs wait for a slot, and how long the first of them has.
func (s *slots) waiting() (n int, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.line {
		longest = max(longest, time.Since(p.since))
	}
	return len(s.line), longest
}

// The metrics of slots. A run that waits has begun for the client, so its start delay does not have the wait.
var (
	waitingRuns = prometheus.NewDesc("soloist_cron_waiting_runs", "Runs that are due and wait for one of the slots of --parallel.", nil, nil)
	longestWait = prometheus.NewDesc("soloist_cron_longest_wait_seconds", "How long the run that waits longest for a slot has waited; 0 if none waits.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *slots) Describe(to chan<- *prometheus.Desc) {
	to <- waitingRuns
	to <- longestWait
}

// Collect implements prometheus.Collector.
func (s *slots) Collect(to chan<- prometheus.Metric) {
	n, longest := s.waiting()
	to <- prometheus.MustNewConstMetric(waitingRuns, prometheus.GaugeValue, float64(n))
	to <- prometheus.MustNewConstMetric(longestWait, prometheus.GaugeValue, longest.Seconds())
}
