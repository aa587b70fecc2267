package sqlitestore

import (
	"context"
	"fmt"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// Capabilities is as in store.Prober: the settings are read back from the connection that commits.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	f, err := s.enter(ctx, s.writing)
	if err != nil {
		return store.Capabilities{}, s.at(err)
	}
	defer s.writing.give()
	var version, journal, sync string
	err = s.retry(ctx, func() error {
		return f.write.row(sqlSettings, nil, &version, &journal, &sync)
	})
	if err != nil {
		return store.Capabilities{}, s.at(err)
	}
	full := sync == "2" && strings.EqualFold(journal, "wal")
	return store.Capabilities{
		Backend: fmt.Sprintf("SQLite %s, %s, synchronous=%s, clock %s",
			version, strings.ToUpper(journal), synchronous(sync), f.clock.kind),
		Scope:   store.ScopeHost,
		Fencing: f.fencing(full, s.clocks),
		Durable: f.durable(full),
		Waiting: store.Promise{Answer: store.Yes, Why: fmt.Sprintf("PRAGMA data_version is looked at every %v while somebody waits", watchInterval)},
	}, nil
}

func synchronous(value string) string {
	return map[string]string{"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}[value]
}

func (f *file) fencing(full bool, c clocks) store.Promise {
	switch {
	case !full:
		return store.Promise{Answer: store.No, Why: "the file is not kept in WAL mode with synchronous=FULL"}
	case f.system.doubt != "":
		return store.Promise{Answer: store.Unknown, Why: f.system.doubt}
	}
	why := "on one host and a local disk BEGIN IMMEDIATE orders every step, and tokens grow even over sweeps"
	if f.clock.kind == wallClock {
		why += "; but leases end by the wall clock, early or late when that is set"
		if c.why != nil {
			why += fmt.Sprintf(" (%v)", c.why)
		}
	}
	return store.Promise{Answer: store.Yes, Why: why}
}

func (f *file) durable(full bool) store.Promise {
	switch {
	case f.system.memory:
		return store.Promise{Answer: store.No, Why: "the file is on " + f.system.name + ", which does not survive a reboot: put it on a disk"}
	case !full:
		return store.Promise{Answer: store.No, Why: "commits are not synced to the disk"}
	}
	return store.Promise{Answer: store.Yes, Why: "synchronous=FULL syncs every commit, as far as the disk honours fsync"}
}
