package cron

import (
	"fmt"
	"time"
)

// An Expression is a parsed cron expression. It is immutable and safe for concurrent use. The zero Expression never
// fires; make one with [Parse], [ParseIn] or [Expression.UnmarshalText].
type Expression struct {
	text     string
	location *time.Location
	unnamed  error // why the name of the location does not tell the zone; nil if it does
	prefixed bool  // the text itself names the zone
	both     bool  // a day must match both day fields
	quartz   bool  // weekdays are numbered from 1, Sunday, to 7
	hashed   bool  // an H in the text depends on the job's name

	every    int64 // milliseconds between two times of an @every expression, else 0
	offset   int64 // milliseconds from 1970-01-01T00:00:00Z to one of them, less than every
	calendar calendar
	elapsing bool // follows the clock on the wall through both passes of a repeated hour
}

// String returns the expression as it was given, zone prefix included, without the space around it.
func (e *Expression) String() string { return e.text }

// Location returns the zone in which the fields are read, and in which Next returns its times.
func (e *Expression) Location() *time.Location {
	if e.location == nil {
		return time.UTC
	}
	return e.location
}

// MarshalText returns a text from which UnmarshalText makes the same schedule: the expression as given, with a zone
// prefix in front if the zone came from [ParseIn]. The name given to [Expression.For] is not part of it. It fails for a
// zone that has no portable name, such as time.Local, or whose name is that of another zone on this machine, such as
// time.FixedZone("CET", 3600): the zone CET has daylight saving.
func (e *Expression) MarshalText() ([]byte, error) {
	switch {
	case e.prefixed || e.Location() == time.UTC:
		return []byte(e.text), nil
	case e.unnamed != nil:
		return nil, fmt.Errorf("cron: %q cannot be written down with its zone: %w", e.text, e.unnamed)
	}
	return []byte("TZ=" + e.location.String() + " " + e.text), nil
}

// UnmarshalText parses the text as [Parse] does, so that an Expression can be a field of a configuration.
func (e *Expression) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}
