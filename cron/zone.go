package cron

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"time"
)

// widest is more than the clocks of any zone differ from UTC, and more than any zone ever set its clocks back or
// forward, in seconds.
const widest = 2 * day

// zones remembers the zones loaded by name: loading one reads a file. Only names that exist are kept, so the few
// hundred of the zone database bound it.
var zones sync.Map // name string -> *time.Location

// machineZone is the name of a link to /etc/localtime, which the zone database of Debian, among others, has.
const machineZone = "localtime"

// zoneNamed loads a zone that means the same on every machine.
func zoneNamed(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, errors.New("the zone has no name: use one like TZ=Europe/Berlin")
	case name == "Local", path.Base(name) == machineZone:
		return nil, fmt.Errorf("the zone %s differs between machines: use a name like Europe/Berlin", name)
	}
	if loaded, found := zones.Load(name); found {
		return loaded.(*time.Location), nil
	}
	loaded, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("the zone %q is unknown: use a name like Europe/Berlin, "+
			"and import time/tzdata where the system has no zone database", name)
	}
	kept, _ := zones.LoadOrStore(name, loaded)
	return kept.(*time.Location), nil
}

// tellsZone returns why the name of a zone does not tell it to others; nil if it does. Zones that set their clocks alike from 1970 on are the same.
func tellsZone(loc *time.Location) error {
	named, err := zoneNamed(loc.String())
	if err != nil {
		return err
	}
	for at := int64(0); at < rulesOnly; {
		p, q := periodAt(at, loc), periodAt(at, named)
		if p.offset != q.offset {
			return fmt.Errorf("the zone %q of the program is another one than that of this name: at %s it is %+d s from UTC instead of %+d s",
				loc, time.Unix(at, 0).UTC().Format(time.RFC3339), p.offset, q.offset)
		}
		at = min(p.end, q.end)
	}
	return nil
}

// rulesOnly is 2040-01-01, in seconds: from then on zones follow the rules that they have followed for years.
const rulesOnly = 2208988800

// A period is a time during which a zone does not set its clocks: from start up to, but not including, end.
type period struct {
	start, end int64 // seconds since the Unix epoch
	offset     int64 // what the clocks show minus UTC, in seconds
}

const forever = 1 << 62

// setsClocks reports whether a zone sets its clocks at any time after 1970.
func setsClocks(loc *time.Location) bool { return periodAt(0, loc).end < forever }

// periodAt returns the period that the given instant is in.
func periodAt(instant int64, loc *time.Location) period {
	if loc == time.UTC {
		return period{start: -forever, end: forever}
	}
	at := time.Unix(instant, 0).In(loc)
	_, offset := at.Zone()
	start, end := at.ZoneBounds()
	p := period{start: -forever, end: forever, offset: int64(offset)}
	if !start.IsZero() {
		p.start = min(start.Unix(), instant)
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= instant {
		p.end = changeAfter(instant, loc)
	}
	return p
}

// changeAfter returns the end of a period of at most a day that the given instant is in. It stands in for ZoneBounds, which
// ends a period too early, and so in the past, on the last day of a leap year (https://go.dev/issue/81583). Searches
// go on from the end of a period, so every end must lie after the instant: else they never end.
func changeAfter(instant int64, loc *time.Location) int64 {
	offset := func(at int64) int { _, offset := time.Unix(at, 0).In(loc).Zone(); return offset }
	same, end, now := instant, instant+day, offset(instant)
	for offset(end) != now && end-same > 1 {
		if middle := (same + end) / 2; offset(middle) == now {
			same = middle
		} else {
			end = middle
		}
	}
	return end
}

// furthest returns the latest local time that the clocks have shown up to the given instant, which is in period p.
// That is more than they show at the instant itself when they were set back not long ago.
func furthest(instant int64, p period, loc *time.Location) int64 {
	local := instant + p.offset
	for start := p.start; instant-start < widest; {
		earlier := periodAt(start-1, loc)
		local = max(local, start-1+earlier.offset)
		start = earlier.start
	}
	return local
}

// reached returns the first instant at which the clocks show the given local time or a later one: the time itself,
// the first of two if it is repeated, the end of the gap if it is skipped. It looks from an instant in period p on, up
// to which the clocks have not shown it.
func reached(local, from int64, p period, loc *time.Location) int64 {
	for {
		if candidate := max(from, local-p.offset); candidate < p.end {
			return candidate
		}
		from = max(p.end, local-widest)
		p = periodAt(from, loc)
	}
}
