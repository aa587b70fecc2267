package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
)

// voters returns how many servers vote, by ZooKeeper's own configuration. A server that runs alone has none.
func (s *Store) voters(ctx context.Context) (int, error) {
	n, err := call(ctx, s.backend, func(conn *zk.Conn) (int, error) {
		if _, err := conn.Sync(s.backend.tree.root); err != nil {
			return 0, err
		}
		data, _, err := conn.Get("/zookeeper/config")
		if err != nil {
			return 0, err
		}
		return votersIn(string(data)), nil
	})
	return n, wrap("reading the configuration", err)
}

// votersIn returns how many servers vote by a configuration. Observers do not.
func votersIn(configuration string) (n int) {
	for line := range strings.Lines(configuration) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			n++
		}
	}
	return max(1, n)
}

// known reports whether an error leaves only the number of servers unknown.
func known(err error) bool {
	return err == nil || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode)
}

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := s.ready(ctx); err != nil {
		return store.Capabilities{}, err
	}
	n, err := s.voters(ctx)
	if !known(err) {
		return store.Capabilities{}, err
	}
	c := store.Capabilities{
		Backend: "ZooKeeper", Scope: store.ScopeFleet,
		Fencing: store.Promise{Answer: store.Yes, Why: "a token is a counter in the record, and a majority of the servers agrees on each change of a record"},
		Waiting: store.Promise{Answer: store.Yes, Why: "ZooKeeper reports a release to those who watch the name"},
	}
	switch {
	case err != nil:
		c.Durable = store.Promise{Answer: store.Unknown, Why: err.Error()}
	case n == 1:
		c.Backend += ", one server"
		c.Durable = store.Promise{Answer: store.Yes, Why: "the only server writes to its disk before it replies, unless forceSync=no; what the disk loses is lost"}
	default:
		c.Backend += fmt.Sprintf(", %d servers that vote", n)
		c.Durable = store.Promise{Answer: store.Yes, Why: fmt.Sprintf("a majority of %d servers has written to its disks before ZooKeeper replies, unless forceSync=no", n)}
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	n, err := s.voters(ctx)
	if !known(err) {
		return nil, err
	}
	servers := judge("servers", n >= 3 && n%2 == 1, strconv.Itoa(n)+" that vote", store.LevelWarning, "use three or five")
	if err != nil {
		servers = store.Finding{Subject: "servers", Found: err.Error(), Level: store.LevelUnknown, Fix: "ask an operator how many servers vote"}
	}
	rights, err := s.rights(ctx)
	if err != nil {
		return nil, err
	}
	return append([]store.Finding{servers}, rights...), nil
}

// rights looks at the ACL of the store's node, and asks for a change that cannot be carried out.
func (s *Store) rights(ctx context.Context) ([]store.Finding, error) {
	root := s.backend.tree.root
	type found struct {
		acl    []zk.ACL
		denied error
	}
	f, err := call(ctx, s.backend, func(conn *zk.Conn) (f found, err error) {
		if f.acl, _, err = conn.GetACL(root); err != nil {
			return f, err
		}
		replies, err := conn.Multi(&zk.CreateRequest{Path: root + "/rights", Acl: s.backend.acl}, &zk.CheckVersionRequest{Path: root, Version: lastVersion})
		switch i := refused(replies, 2); {
		case i < 0:
			return f, err
		case i == 0:
			f.denied = replies[0].Error
		}
		return f, nil
	})
	fix := "see the rights in docs/stores/zookeeper.md: the users of the store read, write, create and delete below " + root
	switch err = wrap("checking rights", err); {
	case errors.Is(err, zk.ErrNoNode):
		return []store.Finding{{Subject: "rights", Found: root + " is not there yet", Level: store.LevelUnknown, Fix: "look again when it is: the first write makes it"}}, nil
	case errors.Is(err, zk.ErrNoAuth):
		return []store.Finding{{Subject: "rights", Found: "may not read " + root, Level: store.LevelError, Fix: fix}}, nil
	case err != nil:
		return nil, err
	case f.denied != nil:
		return []store.Finding{{Subject: "rights", Found: "may not create nodes below " + root + ": " + f.denied.Error(), Level: store.LevelError, Fix: fix}}, nil
	}
	anybody := slices.ContainsFunc(f.acl, func(a zk.ACL) bool {
		return a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete) != 0
	})
	others := judge("others", true, "the ACL of "+root+" names who may write", store.LevelOK, "")
	if anybody {
		others = judge("others", false, "the ACL of "+root+" lets everybody write", store.LevelWarning, "give the store a user, or an ACL")
	}
	return []store.Finding{
		{Subject: "rights", Found: "may create nodes below " + root, Level: store.LevelOK},
		others,
	}, nil
}

func judge(subject string, good bool, found string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: found, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: found, Level: level, Fix: fix}
}
