package hazelcaststore

import (
	"context"
	"slices"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"

	"github.com/soloist-dev/soloist/store/casstore"
)

// Backend returns the records of a store as they are.
func Backend(s *Store) casstore.Backend {
	if s.references != nil {
		return s.references
	}
	return s.backend
}

// LoseMembers lets a store believe that all members have left.
func LoseMembers(ctx context.Context, s *Store) error {
	session, err := s.backend.connector.get(ctx)
	if err == nil {
		session.members.mu.Lock()
		clear(session.members.all)
		session.members.mu.Unlock()
	}
	return err
}

// LateAttempt connects as an attempt whose place another one has taken, and returns its error.
func LateAttempt(s *Store) error {
	a := &attempt{done: make(chan struct{})}
	s.backend.connector.connect(a)
	if a.session != nil {
		shutdown(a.session.client)
	}
	return a.err
}

// ReadOfALostCluster makes a read that fails, as where a member is away, with a client that has lost the cluster. It
// returns how often the read was made.
func ReadOfALostCluster(ctx context.Context, s *Store) (times int, err error) {
	session, err := s.backend.connector.get(ctx)
	if err != nil {
		return 0, err
	}
	shutdown(session.client)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err = ask(ctx, s.backend.connector, session, func() (any, error) {
		if times++; times > 1 {
			cancel()
		}
		return nil, hzerrors.ErrRetryableIO
	})
	return times, err
}

// TextData is the serialized form of a text.
func TextData(text string) []byte { return textData(text) }

// Overwrite writes any serialized form over a reference.
func Overwrite(ctx context.Context, s *Store, name, from string, to []byte) (bool, error) {
	l, err := s.references.links.get(ctx)
	if err != nil {
		return false, err
	}
	replied, err := l.do(ctx, request(typeCompareAndSet).group(l.group).text(s.references.prefix+name).data(textData(from)).data(to))
	return err == nil && replied[0].content[atReply] != 0, err
}

// GroupName is the CP group.
const GroupName = groupName

// Members returns the members that a store counts.
func Members(ctx context.Context, s *Store) (all []string, err error) {
	session, err := s.backend.connector.get(ctx)
	if err != nil {
		return nil, err
	}
	session.members.mu.Lock()
	defer session.members.mu.Unlock()
	for id := range session.members.all {
		all = append(all, id.String())
	}
	slices.Sort(all)
	return all, nil
}
