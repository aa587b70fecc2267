package hazelcaststore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// about returns a description of the cluster of a session: "Hazelcast 5.5.0, 3 members".
func (s *session) about() string {
	versions := slices.Sorted(maps.Keys(s.members.versions()))
	return fmt.Sprintf("Hazelcast %s, members with data: %d", strings.Join(versions, " and "), s.members.count())
}

// Capabilities implements store.Prober. They are the same for every IMap: no setting of a cluster or a map makes it consistent. With CP they are known once a member has
// shown that it has the CP Subsystem.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if s.references != nil {
		return s.references.capabilities(ctx)
	}
	session, err := s.backend.connector.get(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: session.about() + ", map " + s.backend.cfg.Map,
		Scope:   store.ScopeFleet,
		Fencing: store.Promise{Answer: store.No, Why: "a map prefers availability: when the cluster is split, both sides grant a name, with the same token, and one of the two grants is dropped when they meet again"},
		Durable: store.Promise{Answer: store.No, Why: "a map is in the memory of the members: what all members with a copy of an entry lose, is lost"},
		Waiting: store.Promise{Answer: store.No, Why: "the events of a map can be lost, so waiters ask again"},
	}, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if s.references != nil {
		return s.references.examine(ctx)
	}
	session, err := s.backend.connector.get(ctx)
	if err != nil {
		return nil, err
	}
	count, cfg := session.members.count(), s.backend.cfg
	findings := []store.Finding{
		{Subject: "members", Found: session.about(), Level: store.LevelOK},
		{Subject: "exclusion", Found: "best effort: both sides of a split cluster grant a name", Level: store.LevelWarning,
			Fix: "use another store where a name that is granted twice does harm"},
	}
	if count < 2 {
		findings[0].Level, findings[0].Fix = store.LevelWarning, "use three members: with one, everything is lost when it ends"
	}
	findings = append(findings, needed(cfg.MinMembers, count))
	names, foreign, err := s.backend.namesOf(ctx, "")
	if err != nil {
		return nil, err
	}
	if foreign != nil {
		findings = append(findings, store.Finding{Subject: "keys", Found: foreign.Error(), Level: store.LevelError, Fix: "remove the entry"})
	}
	expiry, err := s.expiry(ctx, names)
	if err != nil {
		return nil, err
	}
	return append(findings, expiry, store.Finding{
		Subject: "eviction and copies", Found: "a client cannot see them", Level: store.LevelUnknown,
		Fix: fmt.Sprintf("configure the map %q with eviction-policy NONE and backup-count 1 or more: an entry that is evicted, or whose only copy ends, takes its token and what is done with it", cfg.Map),
	}), nil
}

// needed judges Config.MinMembers, few, by how many members there are now.
func needed(few, count int) store.Finding {
	more := fmt.Sprintf("set it to %d, more than half of the members", count/2+1)
	switch {
	case few == 0:
		return store.Finding{Subject: "minmembers", Found: "0: a part of the cluster grants, however small it is", Level: store.LevelWarning, Fix: more}
	case few <= count/2:
		return store.Finding{Subject: "minmembers", Found: fmt.Sprintf("%d: both halves of the cluster grant", few), Level: store.LevelWarning, Fix: more}
	case few > count:
		return store.Finding{Subject: "minmembers", Found: fmt.Sprintf("%d: nothing is granted with %d members", few, count), Level: store.LevelError,
			Fix: "look for the members that are missing, or for what keeps them apart"}
	}
	return store.Finding{Subject: "minmembers", Found: strconv.Itoa(few), Level: store.LevelOK}
}

// expiry looks at one entry, since all entries of a map have the map's settings.
func (s *Store) expiry(ctx context.Context, names []string) (store.Finding, error) {
	if len(names) == 0 {
		return store.Finding{Subject: "expiry", Found: "the map has no entry yet", Level: store.LevelUnknown, Fix: "look again when it has one"}, nil
	}
	items, err := s.backend.Read(ctx, names[:1])
	if err != nil {
		return store.Finding{}, err
	}
	if err := items[0].Err; errors.Is(err, store.ErrUnusable) {
		return store.Finding{Subject: "expiry", Found: err.Error(), Level: store.LevelError, Fix: "set time-to-live-seconds and max-idle-seconds of the map to 0"}, nil
	}
	return store.Finding{Subject: "expiry", Found: "entries do not expire", Level: store.LevelOK}, nil
}

func (r *references) capabilities(ctx context.Context) (store.Capabilities, error) {
	l, err := r.links.get(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: "Hazelcast " + l.version + ", CP group " + groupName + ", map " + strings.TrimSuffix(r.prefix, ":"),
		Scope:   store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "each write is conditional on the one before, and a majority of the CP group decides it by Raft; a cluster whose CP members have all ended begins again, with tokens from a client's clock"},
		Durable: store.Promise{Answer: store.No, Why: "the CP Subsystem is in the memory of its members: when a majority of them ends, nothing is granted any more, and all is lost"},
		Waiting: store.Promise{Answer: store.No, Why: "waiters ask again"},
	}, nil
}

// manyNames is when an operator should know that names stay.
const manyNames = 100_000

func (r *references) examine(ctx context.Context) ([]store.Finding, error) {
	l, err := r.links.get(ctx)
	if err != nil {
		return nil, err
	}
	names, err := r.objects(ctx, "")
	if err != nil {
		return nil, err
	}
	used := store.Finding{Subject: "names", Found: fmt.Sprintf("%d were used of this map since the CP group was made, and stay in memory", len(names)), Level: store.LevelOK}
	if len(names) > manyNames {
		used.Level, used.Fix = store.LevelWarning, "use names again, or another store: the CP Subsystem forgets no name"
	}
	return []store.Finding{
		{Subject: "members", Found: "Hazelcast " + l.version, Level: store.LevelOK},
		{Subject: "exclusion", Found: "a majority of the CP group decides, by Raft", Level: store.LevelOK},
		{Subject: "durability", Found: "records are in memory: when a majority of the CP group ends, nothing is granted until the CP Subsystem is reset, which forgets everything", Level: store.LevelWarning,
			Fix: "keep the CP members on different machines, and restart one at a time, after the one before was promoted to a CP member again"},
		used,
	}, nil
}
