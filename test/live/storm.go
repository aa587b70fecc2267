//go:build unix

package live

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"
)

// A server is what a storm makes suffer. Those of package servers do.
type server interface {
	Kill()
	Stop()
	Start()
	Pause()
	Resume()
	Paused() bool
	Ended() *os.ProcessState
}

// A storm does one thing after the other to a server and to the connections of its clients. What it does, and for how long, is drawn
// from a seed; each kind comes once in every round. It counts what was seen to take effect.
type storm struct {
	server     server
	standby    server // nil where there is none
	proxy      *proxy
	throttling throttling // nil where nothing throttles
	slow       bool       // the server takes long to start, so it is killed and stopped once each
	ttl        time.Duration
	gap        time.Duration // the longest time between two faults
	rng        *rand.Rand

	effective map[string]int // by kind; of each kind that there could be, 0 if it was not seen
}

// A fault returns whether it was seen to take effect.
type fault func(context.Context) bool

// Kinds of faults after which the server starts again.
const (
	killed  = "server killed"
	stopped = "server stopped"
)

// kinds are what a storm does.
func (s *storm) kinds() map[string]fault {
	kinds := map[string]fault{
		"requests lost": s.spoiled(swallow, pass, func() int64 { return s.proxy.swallowed[requests].Load() }),
		"replies lost":  s.spoiled(pass, swallow, func() int64 { return s.proxy.swallowed[replies].Load() }),
		"partition": s.spoiled(swallow, swallow, func() int64 {
			return min(s.proxy.swallowed[requests].Load(), 1) * (s.proxy.swallowed[requests].Load() + s.proxy.swallowed[replies].Load())
		}),
		"slow link":       s.spoiled(delay, delay, s.proxy.delayed.Load),
		"byte by byte":    s.spoiled(trickle, trickle, s.proxy.trickled.Load),
		"cut in a reply":  s.spoiled(pass, halve, s.proxy.halved.Load),
		"cut in a call":   s.reset,
		"server paused":   func(ctx context.Context) bool { return s.pause(ctx, s.server, 0.2, 0.8) },
		"paused over TTL": func(ctx context.Context) bool { return s.pause(ctx, s.server, 1.1, 1.5) },
		killed:            s.kill,
		stopped:           s.stop,
	}
	if s.throttling != nil {
		kinds["throttled"] = s.throttled
	}
	if s.standby != nil {
		kinds["standby paused"] = func(ctx context.Context) bool { return s.pause(ctx, s.standby, 0.2, 1) }
	}
	return kinds
}

// between draws a span between two parts of the TTL.
func (s *storm) between(least, most float64) time.Duration {
	return time.Duration((least + (most-least)*s.rng.Float64()) * float64(s.ttl))
}

// spoiled is a fault of the connections that lasts for a part of the TTL. It took effect if it was counted.
func (s *storm) spoiled(forRequests, forReplies mode, counted func() int64) fault {
	return func(ctx context.Context) bool {
		before := counted()
		s.proxy.spoil(0.3+0.7*s.rng.Float64(), forRequests, forReplies)
		wait(ctx, s.between(0.1, 0.6))
		s.proxy.clear()
		return counted() > before
	}
}

// A throttling lets a server do less than it is asked to for a while. It returns whether that was felt.
type throttling func(ctx context.Context, span time.Duration) (felt bool)

// refusing is a throttling by which most requests are refused.
func refusing(by *throttler, begin, end func()) throttling {
	return func(ctx context.Context, span time.Duration) bool {
		before := by.refused.Load()
		begin()
		wait(ctx, span)
		end()
		return by.refused.Load() > before
	}
}

// How long a server that is slowed down stands still, and how long it runs then.
const (
	standsStill = 90 * time.Millisecond
	runs        = 10 * time.Millisecond
)

// slowed is a throttling of a server that refuses nothing: it gets a tenth of the time, as in a container that has used up its share of the processors, so that
// whatever it answers comes late.
func slowed(server server, p *proxy) throttling {
	return func(ctx context.Context, span time.Duration) (felt bool) {
		for end, on := time.Now().Add(span), true; on && time.Now().Before(end); on = wait(ctx, runs) {
			server.Pause()
			wait(ctx, standsStill)
			felt = felt || server.Paused() && p.waiting() > 0
			server.Resume()
		}
		return felt
	}
}

// throttled lets the server be throttled for a part of the TTL.
func (s *storm) throttled(ctx context.Context) bool { return s.throttling(ctx, s.between(0.1, 1)) }

// reset cuts connections as soon as one has a request under way.
func (s *storm) reset(ctx context.Context) bool {
	for end := time.Now().Add(s.ttl / 2); time.Now().Before(end); {
		if s.proxy.cutWaiting() > 0 {
			return true
		}
		if !wait(ctx, time.Millisecond) {
			return false
		}
	}
	return false
}

// pause stops a server. It took effect if the server was seen to be stopped at the end too, while somebody waited for an answer.
func (s *storm) pause(ctx context.Context, server server, least, most float64) bool {
	server.Pause()
	defer server.Resume()
	wait(ctx, s.between(least, most))
	return server.Paused() && s.proxy.waiting() > 0
}

// kill ends the server with SIGKILL and starts it again with its data.
func (s *storm) kill(context.Context) bool {
	before := s.proxy.lost.Load()
	s.server.Kill()
	status, ok := s.server.Ended().Sys().(syscall.WaitStatus)
	s.server.Start()
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL && s.proxy.lost.Load() > before
}

// stop ends the server as one ends it for maintenance, and starts it again.
func (s *storm) stop(context.Context) bool {
	before := s.proxy.lost.Load()
	s.server.Stop()
	ended := s.server.Ended()
	s.server.Start()
	return ended != nil && s.proxy.lost.Load() > before
}

// blow makes faults until ctx ends.
func (s *storm) blow(ctx context.Context) {
	kinds := s.kinds()
	for kind := range kinds {
		s.effective[kind] += 0
	}
	for {
		round := sortedKeys(kinds)
		s.rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		// First what has happened the least: a storm can be over before each kind has had its turn.
		slices.SortStableFunc(round, func(a, b string) int { return s.effective[a] - s.effective[b] })
		for _, kind := range round {
			if s.slow && s.effective[kind] > 0 && (kind == killed || kind == stopped) {
				continue
			}
			if !wait(ctx, time.Duration(s.rng.Int64N(int64(s.gap)))) {
				return
			}
			if kinds[kind](ctx) {
				s.effective[kind]++
			}
		}
	}
}

// missing returns the kinds of faults that were not seen to take effect.
func (s *storm) missing() []string {
	var missing []string
	for _, kind := range sortedKeys(s.effective) {
		if s.effective[kind] == 0 {
			missing = append(missing, kind)
		}
	}
	return missing
}

// wait waits, and returns false when ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
