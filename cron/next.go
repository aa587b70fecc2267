package cron

import "time"

// Next returns the first scheduled time strictly after the given one, in the expression's zone, or the zero time if
// there is none. Scheduled times are whole seconds (for @every, whole milliseconds) of the years 1970 to 2199.
//
// It allocates nothing, and needs well under a microsecond for all but the rarest calendars.
func (e *Expression) Next(after time.Time) time.Time {
	if e.every > 0 {
		return e.nextMultiple(after)
	}
	instant := after.Unix()
	if instant > latest {
		return time.Time{}
	}
	instant = max(instant, -widest)
	next, found := int64(0), false
	if e.elapsing {
		next, found = e.nextElapsing(instant + 1)
	} else {
		next, found = e.nextFixed(instant)
	}
	if !found {
		return time.Time{}
	}
	return time.Unix(next, 0).In(e.Location())
}

// nextFixed returns the first instant after the given one at which the clocks reach a matching time for the first
// time. Whatever they have passed already, skipped or shown, is over; so nothing fires twice when they are set back,
// and a time that they skip fires when they have skipped it.
func (e *Expression) nextFixed(after int64) (next int64, found bool) {
	loc := e.Location()
	p := periodAt(after, loc)
	local, found := e.calendar.next(furthest(after, p, loc) + 1)
	if !found {
		return 0, false
	}
	return reached(local, after, p, loc), true
}

// nextElapsing returns the first instant, not before the given one, at which the clocks show a matching time.
func (e *Expression) nextElapsing(from int64) (next int64, found bool) {
	for {
		p := periodAt(from, e.Location())
		local, found := e.calendar.next(from + p.offset)
		if !found && p.end-from > widest {
			return 0, false
		}
		if next := local - p.offset; found && next < p.end {
			return next, true
		}
		// The clocks are set before they show the match. Afterwards they may show again what they showed before,
		// but not for longer than the widest change; so from a period that began long ago one may skip ahead to
		// shortly before the match.
		if found && p.end-from > widest {
			from = max(p.end, local-widest)
		} else {
			from = p.end
		}
	}
}
