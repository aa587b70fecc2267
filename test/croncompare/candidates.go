package croncompare

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/hashicorp/cronexpr"
	netresearch "github.com/netresearch/go-cron"
	"github.com/reugn/go-quartz/quartz"
	robfig "github.com/robfig/cron/v3"

	"github.com/soloist-dev/soloist/cron"
)

// next returns the first time after another, or the zero time.
type next func(after time.Time) time.Time

// A candidate is a parser, with what it takes to ask it the same question as the others.
type candidate struct {
	name, module string
	// parse parses the text as it is.
	parse func(text string) (next, error)
	// spell writes five, six (seconds first) or seven fields the way the parser wants them; nil if it wants them so.
	spell func(fields []string) string
	// in parses fields for a zone in the parser's own way.
	in func(text string, zone *time.Location) (next, error)
}

var candidates = []candidate{
	{name: "soloist", module: "github.com/soloist-dev/soloist", parse: parseSoloist,
		in: func(text string, zone *time.Location) (next, error) {
			return parseSoloist("TZ=" + zone.String() + " " + text)
		}},
	{name: "robfig/cron", module: "github.com/robfig/cron/v3", parse: parseRobfig,
		in: func(text string, zone *time.Location) (next, error) {
			return parseRobfig("CRON_TZ=" + zone.String() + " " + text)
		}},
	{name: "netresearch/go-cron", module: "github.com/netresearch/go-cron", parse: parseNetresearch,
		in: func(text string, zone *time.Location) (next, error) {
			return parseNetresearch("CRON_TZ=" + zone.String() + " " + text)
		}},
	{name: "adhocore/gronx", module: "github.com/adhocore/gronx", parse: parseGronx, in: byArgument(parseGronx)},
	{name: "hashicorp/cronexpr", module: "github.com/hashicorp/cronexpr", parse: parseCronexpr, in: byArgument(parseCronexpr),
		spell: func(fields []string) string {
			if len(fields) == 6 { // its sixth field is the year
				fields = append(fields, "*")
			}
			return strings.Join(fields, " ")
		}},
	{name: "reugn/go-quartz", module: "github.com/reugn/go-quartz", parse: parseQuartz(time.UTC),
		in: func(text string, zone *time.Location) (next, error) { return parseQuartz(zone)(text) },
		spell: func(fields []string) string {
			if len(fields) == 5 { // it has no crontab form
				fields = append([]string{"0"}, fields...)
			}
			return strings.Join(fields, " ")
		}},
}

// write spells an expression for the candidate. What begins with @ or a zone stays as it is.
func (c candidate) write(expression string) string {
	if c.spell == nil || strings.ContainsAny(expression[:1], "@TC") {
		return expression
	}
	return c.spell(strings.Fields(expression))
}

// byArgument is for parsers that read the fields in the zone of the time they are asked with.
func byArgument(parse func(string) (next, error)) func(string, *time.Location) (next, error) {
	return func(text string, zone *time.Location) (next, error) {
		ask, err := parse(text)
		if err != nil {
			return nil, err
		}
		return func(after time.Time) time.Time { return ask(after.In(zone)) }, nil
	}
}

func parseSoloist(text string) (next, error) {
	e, err := cron.Parse(text)
	if err != nil {
		return nil, err
	}
	return e.Next, nil
}

func parseRobfig(text string) (next, error) {
	parser := robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month |
		robfig.Dow | robfig.Descriptor)
	schedule, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	return schedule.Next, nil
}

// parseNetresearch asks for everything that the parser can do, and for the rule of Vixie cron about days.
func parseNetresearch(text string) (next, error) {
	parser, err := netresearch.TryNewParser(netresearch.SecondOptional | netresearch.Minute | netresearch.Hour |
		netresearch.Dom | netresearch.Month | netresearch.Dow | netresearch.YearOptional | netresearch.Descriptor |
		netresearch.Extended | netresearch.DowOrDom)
	if err != nil {
		return nil, err
	}
	schedule, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	return schedule.Next, nil
}

func parseGronx(text string) (next, error) {
	if !gronx.IsValid(text) {
		return nil, errors.New("not valid")
	}
	return func(after time.Time) time.Time {
		at, err := gronx.NextTickAfter(text, after, false)
		if err != nil {
			return time.Time{}
		}
		return at
	}, nil
}

func parseCronexpr(text string) (next, error) {
	e, err := cronexpr.Parse(text)
	if err != nil {
		return nil, err
	}
	return e.Next, nil
}

func parseQuartz(zone *time.Location) func(string) (next, error) {
	return func(text string) (next, error) {
		trigger, err := quartz.NewCronTriggerWithLoc(text, zone)
		if err != nil {
			return nil, err
		}
		return func(after time.Time) time.Time {
			at, err := trigger.NextFireTime(after.UnixNano())
			if err != nil {
				return time.Time{}
			}
			return time.Unix(0, at)
		}, nil
	}
}

// safely turns a panic of a parser into an error.
func safely[T any](what func() (T, error)) (result T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return what()
}
