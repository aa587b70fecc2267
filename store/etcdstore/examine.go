package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A cluster is what a member reports about its cluster.
type cluster struct {
	version string
	leader  bool
	voters  int
	alarms  []string // nil if they are not known
	used    int64    // bytes of the database
	quota   int64    // 0 if it is not known
	denied  error    // the user may not see the members
}

// inspect asks the member that responds first.
func (s *Store) inspect(ctx context.Context) (found cluster, err error) {
	client, err := s.clients.get(ctx)
	if err != nil {
		return found, err
	}
	if _, err := s.height.get(ctx, client, s.keys.names(), clientv3.WithKeysOnly()); err != nil {
		return found, s.wrap("reading", err)
	}
	status, err := firstStatus(ctx, client)
	if err != nil {
		if err = s.wrap("asking for the status", err); errors.Is(err, fs.ErrPermission) {
			return cluster{denied: err}, nil
		}
		return found, err
	}
	found.version, found.leader, found.used, found.quota = status.Version, status.Leader != 0, status.DbSize, status.DbSizeQuota
	found.alarms = status.Errors
	members, err := client.MemberList(ctx)
	if err = s.wrap("listing the members", err); err != nil {
		found.denied = err
		if !errors.Is(err, fs.ErrPermission) {
			return found, err
		}
		return found, nil
	}
	for _, m := range members.Members {
		if !m.IsLearner {
			found.voters++
		}
	}
	return found, nil
}

// firstStatus asks all members at once, of which some may be silent, and returns the reply that comes first.
func firstStatus(ctx context.Context, client *clientv3.Client) (status *clientv3.StatusResponse, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type reply struct {
		status *clientv3.StatusResponse
		err    error
	}
	endpoints := client.Endpoints()
	replies := make(chan reply, len(endpoints))
	for _, endpoint := range endpoints {
		asking.Go(func() {
			status, err := client.Status(ctx, endpoint)
			replies <- reply{status, err}
		})
	}
	for range endpoints {
		r := <-replies
		if r.err == nil {
			return r.status, nil
		}
		err = r.err
	}
	return nil, err
}

// Capabilities implements store.Prober. What it reports follows from the members of the cluster.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.ready(ctx); err != nil {
		return store.Capabilities{}, err
	}
	found, err := s.inspect(ctx)
	if err != nil {
		return store.Capabilities{}, err
	}
	c := store.Capabilities{
		Backend: strings.TrimSpace("etcd " + found.version), Scope: store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "a token is etcd's revision of the transaction that granted the name, which a majority of the members has agreed on"},
		Waiting: store.Promise{Answer: store.Yes, Why: "etcd reports a release, and the end of a lease, to those who watch the name"},
	}
	switch {
	case found.denied != nil:
		c.Durable = store.Promise{Answer: store.Unknown, Why: found.denied.Error()}
	case found.voters == 1:
		c.Backend += ", one member"
		c.Durable = store.Promise{Answer: store.Yes, Why: "the only member writes to its disk before it replies; what the disk loses is lost"}
	default:
		c.Backend += fmt.Sprintf(", %d members", found.voters)
		c.Durable = store.Promise{Answer: store.Yes, Why: "a majority of " + strconv.Itoa(found.voters) + " members has written to its disks before it replies"}
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	found, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	findings := []store.Finding{
		judge("server", supported(found.version), "etcd "+found.version, store.LevelError, "use etcd 3.4 or later; 3.5.13 or later for its mends of leases"),
		judge("members", found.voters >= 3 && found.voters%2 == 1, strconv.Itoa(found.voters)+" that vote", store.LevelWarning, "use three or five"),
		judge("alarms", len(found.alarms) == 0, strings.Join(append([]string{strconv.Itoa(len(found.alarms))}, found.alarms...), ", "), store.LevelError,
			"for NOSPACE compact and defragment, then `etcdctl alarm disarm`; for CORRUPT see etcd's runbook"),
	}
	if found.denied != nil {
		findings[1] = store.Finding{Subject: "members", Found: found.denied.Error(), Level: store.LevelUnknown, Fix: "ask an operator how many members vote"}
	}
	if found.quota > 0 {
		findings = append(findings, judge("database", found.used < found.quota/10*8, fmt.Sprintf("%d of %d bytes", found.used, found.quota), store.LevelWarning,
			"compact and defragment it before it is full: then etcd refuses all writes; --auto-compaction-retention=1h keeps it small"))
	}
	findings = append(findings, s.rights(ctx))
	if s.unchecked(ctx) {
		findings = append(findings, store.Finding{Subject: "users", Found: "etcd does not check the user and the password that it is given: everybody may write", Level: store.LevelWarning,
			Fix: "run `etcdctl auth enable`, or leave the user out"})
	}
	return findings, nil
}

// unchecked reports whether the client has a user, and etcd has no users: its client ignores that then.
func (s *Store) unchecked(ctx context.Context) bool {
	client, err := s.clients.get(ctx)
	if err != nil || client.Username == "" {
		return false
	}
	auth, err := client.AuthStatus(ctx) // which only root may see where there are users
	return err == nil && !auth.Enabled
}

// rights checks whether the user may read and write below the prefix, with a transaction that changes nothing.
func (s *Store) rights(ctx context.Context) store.Finding {
	client, err := s.clients.get(ctx)
	if err == nil {
		begin, end := s.keys.prefix, clientv3.GetPrefixRangeEnd(s.keys.prefix)
		never := clientv3.Compare(clientv3.CreateRevision(begin), "<", 0)
		_, err = client.Txn(ctx).If(never).Then(clientv3.OpPut(begin, ""), clientv3.OpGet(begin, clientv3.WithRange(end), clientv3.WithLimit(1))).Commit()
	}
	finding := store.Finding{Subject: "rights", Found: "may read and write below " + strconv.Quote(s.keys.prefix), Level: store.LevelOK}
	switch err = s.wrap("checking rights", err); {
	case errors.Is(err, fs.ErrPermission):
		return store.Finding{Subject: "rights", Found: "may not read and write below " + strconv.Quote(s.keys.prefix), Level: store.LevelError,
			Fix: "etcdctl role grant-permission ROLE --prefix=true readwrite " + s.keys.prefix}
	case err != nil:
		return store.Finding{Subject: "rights", Found: err.Error(), Level: store.LevelUnknown, Fix: "see the error"}
	}
	return finding
}

// supported reports whether a version has nested transactions, and leases whose end a leader makes sure of: 3.4 or later.
func supported(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (major > 3 || major == 3 && minor >= 4)
}

func judge(subject string, good bool, found string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: found, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: found, Level: level, Fix: fix}
}
