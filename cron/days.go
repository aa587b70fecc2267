package cron

import (
	"math/bits"
	"time"
)

// The sets that leave no day out.
const (
	everyDayOfMonth = 1<<32 - 1<<1
	everyDayOfWeek  = 1<<7 - 1
)

// A dayRule is the set of days that the two day fields match, as bits. What depends on the month, such as its last
// Friday, is resolved for one month at a time.
type dayRule struct {
	ofMonth         uint32   // bits 1 to 31
	fromLast        uint32   // bit n: the day n days before the last one
	nearest         uint32   // bit n: the weekday nearest to day n
	nearestFromLast uint32   // bit n: the weekday nearest to the day n days before the last one
	ofWeek          uint8    // bits 0 (Sunday) to 6
	nth             [5]uint8 // nth[n-1]: the weekdays of which the nth in the month is meant
	last            uint8    // the weekdays of which the last in the month is meant
	either          bool     // both fields are restricted: a day that matches one of them is enough
}

// in returns the matching days of the month that begins with first, as bits 1 to 31.
func (r *dayRule) in(first time.Time) uint32 {
	length := lengthOf(first)
	byMonth := r.byMonth(first.Weekday(), length)
	byWeek := r.byWeek(first.Weekday(), length)
	if r.either {
		return byMonth | byWeek
	}
	return byMonth & byWeek
}

// lengthOf returns the number of days of the month that begins with first.
func lengthOf(first time.Time) int {
	switch first.Month() {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		// The calendar ends in 2199, so of the years divisible by 100 it sees 2000, a leap year, and 2100, none.
		if year := first.Year(); year%4 == 0 && year != 2100 {
			return 29
		}
		return 28
	}
	return 31
}

// byMonth returns the days that the day-of-month field means in a month with this first weekday and length.
func (r *dayRule) byMonth(first time.Weekday, length int) uint32 {
	days := r.ofMonth
	for rest := r.fromLast; rest != 0; rest &= rest - 1 {
		if date := length - bits.TrailingZeros32(rest); date >= 1 {
			days |= 1 << date
		}
	}
	for rest := r.nearest; rest != 0; rest &= rest - 1 {
		if date := bits.TrailingZeros32(rest); date <= length {
			days |= 1 << nearestWeekday(date, first, length)
		}
	}
	for rest := r.nearestFromLast; rest != 0; rest &= rest - 1 {
		if date := length - bits.TrailingZeros32(rest); date >= 1 {
			days |= 1 << nearestWeekday(date, first, length)
		}
	}
	return days & (1<<(length+1) - 1<<1)
}

// byWeek returns the days that the day-of-week field means in a month with this first weekday and length.
func (r *dayRule) byWeek(first time.Weekday, length int) uint32 {
	// Rotating the week makes its bit 0 the weekday of day 1; repeating it five times covers any month.
	days := repeat(rotate(r.ofWeek, first))
	for i, weekdays := range r.nth {
		if weekdays != 0 {
			days |= uint64(rotate(weekdays, first)) << (7*i + 1)
		}
	}
	if r.last != 0 {
		week := rotate(r.last, first+time.Weekday(length-7))
		days |= uint64(week) << (length - 6)
	}
	return uint32(days & (1<<(length+1) - 1<<1))
}

// rotate turns a set of weekdays so that its bit 0 stands for the given weekday.
func rotate(weekdays uint8, first time.Weekday) uint8 {
	shift := int(first) % 7
	return (weekdays>>shift | weekdays<<(7-shift)) & everyDayOfWeek
}

// repeat lays a rotated week over the days of a month, from bit 1 on.
func repeat(week uint8) uint64 { return uint64(week) * (1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29) }

// nearestWeekday returns the day from Monday to Friday that is nearest to the given one and in the same month.
func nearestWeekday(date int, first time.Weekday, length int) int {
	switch time.Weekday((int(first) + date - 1) % 7) {
	case time.Saturday:
		if date == 1 {
			return 3
		}
		return date - 1
	case time.Sunday:
		if date == length {
			return date - 2
		}
		return date + 1
	}
	return date
}
