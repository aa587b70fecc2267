package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A goal is something that ours is to reach. It is told, and fails nothing: machines differ.
type goal struct {
	Backend  string  `json:"backend"`
	Case     string  `json:"case"`
	Goal     string  `json:"goal"`
	Measured float64 `json:"measured"`
	Reached  bool    `json:"reached"`
}

// A measured looks rows up.
type measured []*row

// find returns the row of a contender whose name begins with who, "soloist" being ours, in the form of a case that what begins with.
func (m measured) find(backend, letter, what, who string) *row {
	for _, r := range m {
		if r.Backend == backend && r.Case == letter && strings.HasPrefix(r.What, what) && strings.HasPrefix(r.Contender, who) {
			return r
		}
	}
	return nil
}

const (
	us        = "soloist"
	oneCaller = "one caller"
)

// goals compares what was measured with what is wanted. Those of which a part was not measured are left out.
func goals(rows []*row) []goal {
	m := measured(rows)
	var all []goal
	most := func(backend, letter, text string, r *row, limit float64, value func(*row) float64) {
		if r != nil {
			v := value(r)
			all = append(all, goal{backend, letter, text, v, v <= limit})
		}
	}
	least := func(backend, letter, text string, a, b *row, limit float64, value func(*row) float64) {
		if a != nil && b != nil && value(b) > 0 {
			v := value(a) / value(b)
			all = append(all, goal{backend, letter, text, v, v >= limit})
		}
	}
	rate := func(r *row) float64 { return r.Typical.Rate }
	commands := func(r *row) float64 { return r.Typical.Commands }
	more := func(name string) func(*row) float64 {
		return func(r *row) float64 { v, _ := r.Typical.more(name); return v }
	}
	for _, backend := range []string{"Redis", "PostgreSQL", "MariaDB", "SQLite"} {
		a := m.find(backend, "A", oneCaller, us)
		pair := map[string]float64{"Redis": 1.2, "MariaDB": 1.4}[backend]
		if pair == 0 {
			pair = 1.1
		}
		most(backend, "A", fmt.Sprintf("p50 of a pair ≤ %v × the floor's", pair), a, pair, func(r *row) float64 { return r.Median.Median })
		if backend != "SQLite" {
			most(backend, "A", "exactly 2 commands a pair", a, 2.005, commands)
			most(backend, "D", "1 command a refused try", m.find(backend, "D", oneCaller, us), 1.005, commands)
			most(backend, "D", "≤ 0.05 commands a try when many in one process ask", many(m, backend, "D"), 0.05, commands)
			change := 2.1
			if backend == "MariaDB" { // nothing there wakes a waiter but a lock that it waits for
				change = 4
			}
			most(backend, "C", fmt.Sprintf("≤ %v commands for each change of the owner", change), m.find(backend, "C", "", us), change, commands)
			most(backend, "E", "≤ 3 commands/s for 10,000 leases", m.find(backend, "E", "", us), 3, more(perSecond10k))
			most(backend, "E", "≤ 0.5 % CPU for 10,000 leases", m.find(backend, "E", "", us), 0.5, more(cpu10k))
			// Twenty replicas at least: one claim each, and one more of the one that asks for the jobs.
			most(backend, "H", "≤ 1 claiming command for each replica and tick, and 1 more", m.find(backend, "H", "", us), 1.055, more(claimsPerReplica))
		}
		most(backend, "C", "most holds ≤ 1.1 × the fewest", m.find(backend, "C", "", us), 1.1, func(r *row) float64 {
			return more("most holds of a waiter")(r) / max(1, more("fewest")(r))
		})
		if backend == "PostgreSQL" {
			least(backend, "M", "batches of 1,000 ≥ 20 × one by one", m.find(backend, "M", "1 workers, batches", us), m.find(backend, "M", "1 workers, one", us), 20, rate)
		}
	}
	gap := func(r *row) float64 { return r.Typical.P50 / 1000 }
	most("Redis", "C", "gap ≤ 1 ms at p50", m.find("Redis", "C", "", us), 1, gap)
	most("PostgreSQL", "C", "gap ≤ 3 ms at p50", m.find("PostgreSQL", "C", "", us), 3, gap)
	server := func(r *row) float64 { return r.Typical.ServerCPU }
	most("Redis", "A", "p50 of a pair on a given client ≤ 1.3 × the floor's", m.find("Redis", "A", oneCaller, "soloist, given"), 1.3, func(r *row) float64 { return r.Median.Median })
	if floor := m.find("Redis", "A", oneCaller, "floor"); floor != nil && server(floor) > 0 {
		most("Redis", "A", "server CPU of a pair ≤ 1.5 × the floor's", m.find("Redis", "A", oneCaller, us), 1.5, func(r *row) float64 { return server(r) / server(floor) })
	}
	for _, than := range []struct {
		who   string
		least float64
	}{{"floor", 1.3}, {"redislock", 1.6}, {"rueidislock", 1.6}, {"redsync", 2.8}} {
		least("Redis", "B", fmt.Sprintf("≥ %v × %s", than.least, than.who), many(m, "Redis", "B"), m.find("Redis", "B", "", than.who), than.least, rate)
	}
	most("Redis", "B", "client CPU ≤ 1.8 s for 100,000 pairs", many(m, "Redis", "B"), 1.8, func(r *row) float64 { return r.Typical.CPU / 10 })
	most("Redis", "B", "server CPU ≤ 1.3 s for 100,000 pairs", many(m, "Redis", "B"), 1.3, func(r *row) float64 { return server(r) / 10 })
	atLeast := func(text string, r *row, limit float64) {
		if r != nil && r.Ratio.Median > 0 {
			all = append(all, goal{"Redis", "D", text, r.Ratio.Median, r.Ratio.Median >= limit})
		}
	}
	atLeast("tries of one caller ≥ 0.9 × the floor", m.find("Redis", "D", oneCaller, us), 0.9)
	atLeast("tries of many ≥ 1.8 × the floor", many(m, "Redis", "D"), 1.8)
	for _, backend := range []string{"Redis", "PostgreSQL"} {
		for _, client := range httpClients {
			least(backend, "B", "over HTTP"+client.name+", ≥ 0.6 × as many pairs a second", m.find(backend, "B", "", serviceName+client.name), many(m, backend, "B"), 0.6, rate)
		}
	}
	least("PostgreSQL", "B", "≥ 1.5 × the floor", many(m, "PostgreSQL", "B"), m.find("PostgreSQL", "B", "", "floor"), 1.5, rate)
	most("PostgreSQL", "B", "server CPU ≤ 5 s for 100,000 pairs", many(m, "PostgreSQL", "B"), 5, func(r *row) float64 { return r.Typical.ServerCPU / 10 })
	least("MariaDB", "B", "≥ 2 × the floor", many(m, "MariaDB", "B"), m.find("MariaDB", "B", "", "floor"), 2, rate)
	least("PostgreSQL", "D", "≥ 4 × the naive upsert", m.find("PostgreSQL", "D", oneCaller, us), m.find("PostgreSQL", "D", oneCaller, "floor"), 4, rate)
	most("PostgreSQL", "D", "no WAL for a refused try", m.find("PostgreSQL", "D", oneCaller, us), 1, func(r *row) float64 { return r.Typical.Written })
	least("MariaDB", "D", "tries of one caller ≥ 1 × the floor", m.find("MariaDB", "D", oneCaller, us), m.find("MariaDB", "D", oneCaller, "floor"), 1, rate)
	least("etcd", "B", "≥ 1.8 × concurrency.Mutex", many(m, "etcd", "B"), m.find("etcd", "B", "", "concurrency"), 1.8, rate)
	least("etcd", "D", "tries of many ≥ 5 × concurrency.Mutex", many(m, "etcd", "D"), m.find("etcd", "D", "64", "concurrency"), 5, rate)
	most("etcd", "C", "≤ 2.1 requests for each change of the owner", m.find("etcd", "C", "", us), 2.1, commands)
	for _, crowd := range []struct {
		backend string
		most    float64
	}{{"ZooKeeper", 8}, {"Consul", 25}, {"NATS", 8}} { // nothing there hands a name over
		most(crowd.backend, "C", fmt.Sprintf("≤ %v requests for each change of the owner", crowd.most), m.find(crowd.backend, "C", "", us), crowd.most, commands)
	}
	for _, than := range [][2]string{{"ZooKeeper", "zk.Lock"}, {"Consul", "as Lock"}} {
		least(than[0], "C", "more changes of the owner a second than "+than[1], m.find(than[0], "C", "", us), m.find(than[0], "C", "", than[1]), 1, rate)
	}
	for _, than := range [][2]string{{"ZooKeeper", "Curator"}, {"Consul", "as Lock"}} {
		for _, letter := range []string{"A", "B", "D"} {
			least(than[0], letter, "more a second than "+than[1], m.find(than[0], letter, "", us), m.find(than[0], letter, "", than[1]), 1, rate)
		}
	}
	const large = "100 replicas, 1000 jobs" // fewer show what a replica costs, and not what the jobs do
	least("Redis", "H", "server CPU of a tick of 100 replicas and 1,000 jobs ≥ 15 × less than redsync's", m.find("Redis", "H", large, "redsync"), m.find("Redis", "H", large, us), 15,
		func(r *row) float64 { return r.Typical.ServerCPU })
	return all
}

// many returns ours in the form with many goroutines.
func many(m measured, backend, letter string) *row {
	for _, r := range m {
		if r.Backend == backend && r.Case == letter && r.Ours && r.What != oneCaller {
			return r
		}
	}
	return nil
}

func goalTable(out io.Writer, all []goal) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nGoals")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BACKEND\tCASE\tGOAL\tMEASURED\tREACHED")
	for _, g := range all {
		reached := "no"
		if g.Reached {
			reached = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.Backend, g.Case, g.Goal, digits(g.Measured), reached)
	}
	return w.Flush()
}
