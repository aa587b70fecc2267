package server

import "sync"

// places are those of requests that wait for the same thing. They are safe for concurrent use.
type places struct {
	mu    sync.Mutex
	free  int
	taken map[string]int // by the token
}

func newPlaces(n int) *places { return &places{free: n, taken: map[string]int{}} }

// take takes a place for a token, and reports whether there was one for it. A token that shares the places with others gets one only while it has
// fewer than are free, so that it can't keep the others out: one that takes all it can has half of them, two have a third each. That is the rule of
// Choudhury and Hahne for queues that share a buffer (Dynamic queue length thresholds for shared-memory packet switches, 1998), with a factor of 1.
func (p *places) take(token string, shares bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || shares && p.taken[token] >= p.free {
		return false
	}
	p.free--
	p.taken[token]++
	return true
}

// give gives a place back.
func (p *places) give(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.taken[token]--; p.taken[token] == 0 {
		delete(p.taken, token)
	}
}
