package cron

import (
	"math/bits"
	"time"
)

// The years that an expression can name, and in which scheduled times lie.
const (
	firstYear = 1970
	lastYear  = 2199

	day           = 24 * 60 * 60          // in seconds
	endOfCalendar = 84_006 * day          // 2200-01-01T00:00:00 in seconds since 1970
	latest        = endOfCalendar + 2*day // after this no zone has a scheduled time left
)

// A calendar is the set of local times that the fields of an expression match, as bits.
//
// It knows no zone. Its times are local seconds: what a clock on the wall shows, written as the seconds from
// 1970-01-01T00:00:00 to there as though every day had 24 hours.
type calendar struct {
	seconds, minutes uint64
	hours            uint32
	months           uint16 // bits 1 to 12
	days             dayRule
	years            yearSet
}

// A yearSet has one bit for each year from firstYear.
type yearSet [(lastYear - firstYear + 64) / 64]uint64

var everyYear = func() (all yearSet) {
	for year := firstYear; year <= lastYear; year++ {
		all.add(year)
	}
	return all
}()

func (s *yearSet) add(year int) {
	bit := year - firstYear
	s[bit/64] |= 1 << (bit % 64)
}

// next returns the first year of the set that is not before the given one.
func (s *yearSet) next(year int) (next int, found bool) {
	for bit := year - firstYear; bit < 64*len(s); bit = (bit/64 + 1) * 64 {
		if rest := s[bit/64] >> (bit % 64); rest != 0 {
			return firstYear + bit + bits.TrailingZeros64(rest), true
		}
	}
	return 0, false
}

// next returns the first matching local time that is not before the given one. Times before 1970 do not match.
func (c *calendar) next(local int64) (next int64, found bool) {
	local = max(local, 0)
	today, clock := local/day, int(local%day)
	date, found := c.nextDay(today)
	if found && date == today {
		if clock, found := c.nextClock(clock); found {
			return date*day + int64(clock), true
		}
		date, found = c.nextDay(today + 1)
	}
	if !found {
		return 0, false
	}
	first, found := c.nextClock(0)
	return date*day + int64(first), found
}

// nextDay returns the first matching day that is not before the given one. Days are counted from 1970-01-01.
func (c *calendar) nextDay(date int64) (next int64, found bool) {
	year, month, dayOfMonth := time.Unix(date*day, 0).UTC().Date()
	for {
		matching, found := c.years.next(year)
		if !found {
			return 0, false
		}
		if matching != year {
			year, month, dayOfMonth = matching, time.January, 1
		}
		for rest := c.months >> month << month; rest != 0; rest &= rest - 1 {
			matching := time.Month(bits.TrailingZeros16(rest))
			if matching != month {
				month, dayOfMonth = matching, 1
			}
			first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			if days := c.days.in(first) >> dayOfMonth << dayOfMonth; days != 0 {
				return first.Unix()/day + int64(bits.TrailingZeros32(days)) - 1, true
			}
		}
		year, month, dayOfMonth = year+1, time.January, 1
	}
}

// nextClock returns the first matching time of day that is not before the given one, in seconds from midnight.
func (c *calendar) nextClock(clock int) (next int, found bool) {
	hour, minute, second := clock/3600, clock/60%60, clock%60
	// In an hour or a minute to come, the search starts from its beginning.
	if c.hours>>hour&1 == 0 {
		minute, second = 0, 0
	} else if c.minutes>>minute&1 == 0 {
		second = 0
	}
	// A field with no value left carries into the coarser one.
	if c.seconds>>second == 0 {
		minute, second = minute+1, 0
	}
	if c.minutes>>minute == 0 {
		hour, minute = hour+1, 0
	}
	if c.hours>>hour == 0 {
		return 0, false
	}
	hour += bits.TrailingZeros32(c.hours >> hour)
	minute += bits.TrailingZeros64(c.minutes >> minute)
	second += bits.TrailingZeros64(c.seconds >> second)
	return hour*3600 + minute*60 + second, true
}
