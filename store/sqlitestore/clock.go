package sqlitestore

import (
	"fmt"
	"time"
)

// The kinds of clock that a file can be kept by.
const (
	bootClock = "boottime" // the host's time since boot, suspend included: no step of the wall clock touches it
	wallClock = "wall"     // the host's wall clock
)

// A clock returns the time of the leases of a file. Every process that uses the file reads the same
// one: that of the host, whatever namespace it lives in.
type clock struct {
	kind string
	boot string       // the boot that the time counts from; "" for the wall clock
	now  func() int64 // nanoseconds
	wall func() int64 // nanoseconds of the wall clock, for tokens and for what outlives a boot
}

func wallNow() int64 { return time.Now().UnixNano() }

// offset is what takes this clock's time to the wall clock's.
func (c *clock) offset() int64 { return c.wall() - c.now() }

// clocks are those that this process can read; host is nil, with the reason, when it can read the wall clock only.
type clocks struct {
	host *clock
	why  error
	wall *clock
}

func readableClocks() clocks {
	host, why := hostClock()
	return clocks{host, why, &clock{kind: wallClock, now: wallNow, wall: wallNow}}
}

// best is the clock for a new file.
func (c clocks) best() *clock {
	if c.host != nil {
		return c.host
	}
	return c.wall
}

// kept returns the clock that a file is kept by. Two processes that keep a file by two clocks would free each other's
// leases, so there is no other.
func (c clocks) kept(kind string) (*clock, error) {
	switch {
	case kind == wallClock:
		return c.wall, nil
	case kind == bootClock && c.host != nil:
		return c.host, nil
	case kind == bootClock:
		return nil, fmt.Errorf("its leases are kept by the host's time since boot, which this process cannot read: %w; "+
			"let it see /proc, or use a new file", c.why)
	}
	return nil, fmt.Errorf("its leases are kept by a clock %q, which this version does not know", kind)
}
