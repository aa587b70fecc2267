package robfig

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/soloist-dev/soloist"
)

// Parse returns the schedule of a spec for a soloist.Job. The spec is parsed by cron.ParseStandard: five fields, or a
// descriptor such as @daily, optionally after TZ= or CRON_TZ=. It is in zone loc unless it names another one. The times
// and the errors are those of Schedule; a spec that cron cannot parse is a *soloist.InvalidError, too.
func Parse(spec string, loc *time.Location) (soloist.Schedule, error) {
	// Cron's parser panics if nothing follows the zone.
	if zoned := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ="); zoned && !strings.Contains(spec, " ") {
		return nil, &soloist.InvalidError{What: "spec", Value: spec, Rule: "must have five fields or a descriptor after the zone"}
	}
	s, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, &soloist.InvalidError{What: "spec", Value: spec, Rule: err.Error()}
	}
	return Schedule(s, spec, loc)
}

// Schedule returns s as a schedule for a soloist.Job. Its times are those of s, also when the clock changes: robfig/cron
// leaves out times that the clock skips, and runs times that it repeats twice.
//
// An interval (cron.Every, "@every 90s") becomes soloist.Every: the multiples of the interval since 1970-01-01 UTC. In
// cron it counts from the start of the process, so replicas would not agree on it.
//
// The text is the spec that s was parsed from. Lists show it, and replicas compare it to find those with another
// schedule, so schedules that differ need different texts. It must not be empty.
//
// loc is the zone of times without one. It must be the same on all replicas, so time.Local is an error: cron.New uses it
// unless cron.WithLocation is given. A zone of time.FixedZone that is not the one of its name is shown as its offset; then
// lists do not show the next times.
//
// If s is of the application's own type, its Next must depend only on its argument, and must be safe for concurrent use.
// All errors are *soloist.InvalidError. An interval that soloist.Every does not accept is an error of soloist.Client.NewRunner.
func Schedule(s cron.Schedule, text string, loc *time.Location) (soloist.Schedule, error) {
	var errs []error
	reject := func(what, value, rule string) {
		errs = append(errs, &soloist.InvalidError{What: what, Value: value, Rule: rule})
	}
	if s == nil {
		reject("schedule", "nil", "give a cron.Schedule, such as that of cron.ParseStandard")
	}
	if text == "" {
		reject("text", `""`, "give the spec of the schedule")
	}
	switch loc {
	case nil:
		reject("location", "nil", "give the zone of the schedule, such as time.UTC")
	case time.Local:
		reject("location", "time.Local", "must be the same on all replicas; give time.UTC, or a zone of time.LoadLocation")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	switch s := s.(type) {
	case cron.ConstantDelaySchedule:
		return soloist.Every(s.Delay), nil
	case *cron.ConstantDelaySchedule:
		return soloist.Every(s.Delay), nil
	case *cron.SpecSchedule:
		if s.Location != time.Local {
			return schedule{s, text, loc}, nil // it names its zone
		}
	}
	return schedule{s, fmt.Sprintf("CRON_TZ=%s %s", zoneName(loc), text), loc}, nil
}

// zoneName returns what loc is called for others. A zone of time.FixedZone may have the name of another one, as CET, which has a summer time, or of none: then it is
// its offset, which does not look like a name.
func zoneName(loc *time.Location) string {
	const form = "-07:00:00"
	now := time.Now()
	if start, end := now.In(loc).ZoneBounds(); !start.IsZero() || !end.IsZero() {
		return loc.String() // time.FixedZone makes none that changes
	}
	same, err := time.LoadLocation(loc.String())
	if err != nil || same == time.Local {
		return now.In(loc).Format(form)
	}
	if start, end := now.In(same).ZoneBounds(); !start.IsZero() || !end.IsZero() || now.In(same).Format(form) != now.In(loc).Format(form) {
		return now.In(loc).Format(form)
	}
	return same.String()
}

// schedule computes the times of a cron.Schedule in a zone.
type schedule struct {
	times cron.Schedule
	text  string
	loc   *time.Location
}

// Next returns the first scheduled time after the given one, or the zero time if there is none. A schedule of cron
// without a zone is in that of its argument.
func (s schedule) Next(after time.Time) time.Time {
	next := s.times.Next(after.In(s.loc))
	if next.IsZero() {
		return next
	}
	return next.In(after.Location())
}

func (s schedule) String() string { return s.text }
