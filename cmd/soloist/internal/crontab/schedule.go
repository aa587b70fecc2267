package crontab

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// zoneNamed loads a zone that is the same on every machine. "" is UTC.
func zoneNamed(name string) (*time.Location, error) {
	if name == "Local" || path.Base(name) == "localtime" { // which is a link to /etc/localtime
		return nil, fmt.Errorf("%q is another zone on each machine; write one such as Europe/Berlin, or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no zone %q; write one such as Europe/Berlin, or UTC", name)
	}
	return zone, nil
}

// ownZone is a schedule with its own zone among its settings.
var ownZone = regexp.MustCompile(`^(?:[A-Z]+=\S+\s+)*(?:CRON_)?TZ=`)

// schedule sets when the job runs.
func (j *Job) schedule(text string, zone *time.Location) error {
	whole := text
	if zone != time.UTC && zone.String() != "UTC" && !ownZone.MatchString(text) {
		whole = "CRON_TZ=" + zone.String() + " " + text
	}
	j.Schedule = whole
	expression, err := cron.Parse(whole)
	if err != nil {
		var wrong *cron.ParseError
		switch {
		case !errors.As(err, &wrong):
			return err
		case wrong.Field != "":
			return fmt.Errorf("%q: %s %q: %s", text, wrong.Field, wrong.Piece, wrong.Problem)
		default:
			return fmt.Errorf("%q: %s", text, wrong.Problem)
		}
	}
	j.Expression = expression
	return nil
}
