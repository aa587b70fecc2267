package natsstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/casstore"
)

// Backend returns the records of a store as they are.
func Backend(s *Store) casstore.Backend { return s.backend }

// OnlyDrawn has a store claim a name that was released only if the server has chosen it.
func OnlyDrawn(s *Store) { s.watches.leave = 100 * time.Hour }

// GiveUp closes the connection of a store, as its client does by itself when a server refuses the user again and again. ended is closed when the store does not
// look after that connection any more.
func GiveUp(ctx context.Context, s *Store) (ended <-chan struct{}, err error) {
	l, err := s.backend.links.get(ctx)
	if err != nil {
		return nil, err
	}
	l.nc.Close()
	return l.done, nil
}

// Connection returns the connection of a store. ended is closed when the store does not look after that connection any more.
func Connection(ctx context.Context, s *Store) (nc *nats.Conn, ended <-chan struct{}, err error) {
	l, err := s.backend.links.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	return l.nc, l.done, nil
}

// Raise tells a store of a token that it has seen.
func Raise(s *Store, token int64) { s.backend.raise(uint64(token)) } //nolint:gosec // a token is not below 0

// Suspect tells a store that the sequence of its bucket may have fallen, as another request of it finds.
func Suspect(s *Store) {
	s.backend.suspect(&lowSequence{from: s.backend.high.Load(), leadership: leadership{server: "n9"}})
}

// AskAgain is how long a question may be without a reply before it is asked again.
const AskAgain = askAgain
