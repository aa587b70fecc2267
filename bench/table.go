package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A column is one of a table.
type column struct {
	heading string
	cell    func(*row) string
}

// about describes each case.
var about = map[string]string{
	"A": "take and give back a free name, one caller",
	"B": "the same by many goroutines, a name each",
	"C": "processes wait for one name: each change of the owner",
	"D": "tries at a name that is held",
	"E": "leases kept alive",
	"H": "one tick of jobs on replicas",
	"M": "elements claimed, processed and recorded",
	"S": "start-up of a client with many jobs",
}

// columns are those of a case's table.
func columns(letter string) []column {
	name := column{"CONTENDER", func(r *row) string { return r.Contender }}
	counted := func(heading string, value func(*row) float64) column {
		return column{heading, func(r *row) string {
			if r.Typical.Commands == 0 || r.Foreign && heading != "COMMANDS" { // there is no server, or nothing was counted there
				return "-"
			}
			return digits(value(r))
		}}
	}
	commands := counted("COMMANDS", func(r *row) float64 { return r.Typical.Commands })
	pushes := column{"PUSHES", func(r *row) string { return digits(r.Typical.Pushes) }}
	client := column{"CLIENT CPU", func(r *row) string { return seconds100k(r.Typical.CPU) }}
	server := column{"SERVER CPU", func(r *row) string { return seconds100k(r.Typical.ServerCPU) }}
	log := counted("LOG B", func(r *row) float64 { return r.Typical.Written })
	p50 := column{"P50", func(r *row) string { return duration(r.Typical.P50) }}
	p99 := column{"P99", func(r *row) string { return duration(r.Typical.P99) }}
	rate := column{"PER SECOND", func(r *row) string { return digits(r.Typical.Rate) }}
	extra := func(heading, name string) column {
		return column{heading, func(r *row) string {
			if v, ok := r.Typical.more(name); ok {
				return digits(v)
			}
			return "-"
		}}
	}
	switch letter {
	case "C":
		return []column{name, commands, pushes, p50, p99, rate, extra("MOST", "most holds of a waiter"), extra("FEWEST", "fewest"),
			extra("HOLDS A CHANGE", "holds for each owner change"), client, server}
	case "E":
		return []column{name, {"LEASES", func(r *row) string { return r.What }}, extra("COMMANDS/S", perSecond10k), extra("CLIENT CPU %", cpu10k), extra("HEAP B", "heap a lease")}
	case "H":
		return []column{name, extra("COMMANDS/REPLICA", perReplica), extra("OF THEM CLAIMS", claimsPerReplica), commands, {"SERVER CPU", func(r *row) string { return duration(r.Typical.ServerCPU) }},
			{"CLIENT CPU", func(r *row) string { return duration(r.Typical.CPU) }}, log, extra("RUNS", "runs a tick")}
	case "S":
		return []column{{"JOBS", func(r *row) string { return r.What }}, {"TIME", func(r *row) string { return duration(r.Typical.P50) }}, commands,
			{"CLIENT CPU", func(r *row) string { return duration(r.Typical.CPU) }}, {"SERVER CPU", func(r *row) string { return duration(r.Typical.ServerCPU) }}, log}
	case "M":
		return []column{{"FORM", func(r *row) string { return r.What }}, rate, commands, client, server, log}
	}
	return []column{
		name,
		{"RATE/FLOOR", func(r *row) string { return spreadText(r.Ratio) }},
		{"P50/FLOOR", func(r *row) string { return spreadText(r.Median) }},
		p50, p99, rate, commands, client, {"SERVICE CPU", func(r *row) string { return seconds100k(r.Typical.ServiceCPU) }}, server,
		counted("US/COMMAND", func(r *row) float64 { return r.Typical.CallTime }), counted("CALLED", func(r *row) float64 { return r.Typical.Called }), log,
		{"ALLOCS", func(r *row) string {
			if r.Foreign {
				return "-"
			}
			return digits(r.Typical.Allocs)
		}},
	}
}

// tables writes a table for each backend and form of a case.
func tables(out io.Writer, rows []*row) error {
	for _, group := range groups(rows) {
		first := group[0]
		title := fmt.Sprintf("%s, case %s: %s", first.Backend, first.Case, about[first.Case])
		if strings.Contains("BCDH", first.Case) {
			title += " (" + first.What + ")"
		}
		fmt.Fprintf(out, "\n%s\n", title)
		if err := table(out, columns(first.Case), group); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(out, `
RATE/FLOOR, P50/FLOOR  the ratio to the floor in the same round: the median, and the least and greatest of the rounds
COMMANDS               that the server got, for each operation; LOG: bytes that it wrote to its log for each
US/COMMAND, CALLED     µs that the server spent on a command, and the commands that scripts called, for each operation: Redis alone counts them
CLIENT CPU, SERVER CPU seconds of processor for 100,000 operations; of a tick for each; SERVICE: of the process between client and server
`)
	return err
}

// groups are the rows of one table each, in order. Those of E and M differ in what they are of.
func groups(rows []*row) [][]*row {
	var all [][]*row
	for _, r := range rows {
		same := func(g []*row) bool {
			f := g[0]
			return f.Backend == r.Backend && f.Case == r.Case && (f.What == r.What || strings.Contains("EMS", r.Case))
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i] = append(all[i], r)
		} else {
			all = append(all, []*row{r})
		}
	}
	return all
}

func table(out io.Writer, columns []column, rows []*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cell func(column) string) {
		var cells []string
		for _, c := range columns {
			cells = append(cells, cell(c))
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
	}
	line(func(c column) string { return c.heading })
	for _, r := range rows {
		line(func(c column) string { return c.cell(r) })
	}
	return w.Flush()
}

func spreadText(s spread) string {
	if s.Median == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Min, s.Max)
}

// digits is v with three digits that count.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// seconds100k is µs an operation as seconds for 100,000.
func seconds100k(us float64) string {
	if us == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f s", us/10)
}

func duration(us float64) string {
	if us == 0 {
		return "-"
	}
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond / 10).String()
}
