// Package cron turns a cron expression into the times it means.
//
// Its one idea: a schedule is a pure function of the expression. [Expression.Next] reads no clock and no local time
// zone, and remembers nothing, so every replica of a fleet computes the same scheduled times, whatever its clock, its
// TZ variable and the moment it started. That is what lets a run be named by its job and its scheduled time.
//
// # Expressions
//
// Five fields are a crontab line. Six have seconds in front; seven also have a year at the end:
//
//	[second] minute hour day-of-month month day-of-week [year]
//
// Each field takes *, values, ranges (a-b, which may wrap: FRI-MON, 22-2), steps (*/5, 10/15, 5-50/10), lists, and for
// months and weekdays English names, in full or three letters, in any case. The days take ? (as *), L, L-3, LW, 15W,
// FRIL, 5L and FRI#2 as in Quartz. Weekdays are numbered 0 to 7, whatever the number of fields; both 0 and 7 are Sunday.
//
// H is a value that depends on the job's name, so that the jobs of a fleet do not all start at once: "H 3 * * *" is some
// minute after three, always the same for one job. [Expression.For] gives it the name.
//
// When both day fields are restricted, a day that matches either is taken. When one of them begins with *, or is ?, a day
// must match both. This is the rule of Vixie cron, and it holds for five, six and seven fields.
//
// @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for their usual expressions. @every 90s means
// the multiples of ninety seconds since 1970-01-01T00:00:00Z, not since the process started; @every 1d offset 3h counts
// from three hours later.
//
// # Settings
//
// Settings may stand in front, separated by spaces:
//
//	TZ=Europe/Berlin   the zone; CRON_TZ= is the same
//	DAYS=both          a day must match both day fields
//	WEEKDAYS=quartz    weekdays are numbered from 1, Sunday, to 7, Saturday
//
// Without a zone the expression is in UTC, unless [ParseIn] is given another. It is never in time.Local, unless the caller
// passes just that. Named zones need a zone database: that of the system, or the one that a program embeds by importing
// time/tzdata.
//
// # Daylight saving
//
// An expression whose minute or hour field begins with *, or with an open step such as 0/30, follows the clock on the
// wall: it fires at every instant at which the clock shows a matching time, so it fires in both passes of a repeated hour
// and never in a skipped one. Any other expression means fixed times of the day, and each fires once: in a skipped hour at
// the first instant after it, in a repeated hour at the first pass.
//
// The whole dialect, with its differences from other implementations, is in docs/reference/cron.md.
package cron
