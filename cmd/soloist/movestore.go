package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// moveScheme begins the URL of a store that is two, while a fleet moves from one to the other: move:PHASE OLD NEW.
const moveScheme = "move"

// A moving is what such a URL says.
type moving struct {
	phase              move.Phase
	oldStore, newStore source
}

func (s source) moving() (moving, error) {
	parts := strings.Split(s.text[len(moveScheme)+1:], " ")
	if len(parts) != 3 {
		return moving{}, badConfig(fmt.Errorf("%s: write move:PHASE OLD NEW, with one space between: the phase, the URL of the old store and that of the new one (%%20 is a space in one of them)", s.from))
	}
	m := moving{oldStore: s.part(parts[1], "the old store"), newStore: s.part(parts[2], "the new store")}
	if err := m.phase.UnmarshalText([]byte(parts[0])); err != nil {
		if strings.Contains(parts[0], ":") {
			err = errors.New("a URL stands where the phase belongs: write move:PHASE OLD NEW")
		}
		return moving{}, badConfig(fmt.Errorf("%s: %w", s.from, err))
	}
	for _, part := range []source{m.oldStore, m.newStore} {
		if part.scheme() == moveScheme {
			return moving{}, badConfig(fmt.Errorf("%s: a store that is moved cannot be in another move; finish one move before the next", part.from))
		}
	}
	return m, nil
}

// part is one of the URLs in this one.
func (s source) part(text, which string) source {
	return source{text: text, from: which + " of " + s.from, replica: s.replica}
}

// open opens both stores, and announces the phase before the first claim.
func (m moving) open() (store.Store, error) {
	before, err := m.oldStore.open()
	if err != nil {
		return nil, err
	}
	after, err := m.newStore.open()
	if err != nil {
		return nil, errors.Join(err, before.Close())
	}
	s, err := fleetmove.Join(before, after, m.phase, m.oldStore.replica)
	if err != nil {
		return nil, errors.Join(badConfig(err), before.Close(), after.Close())
	}
	return s, nil
}

// text returns the URL with the two others as change returns them.
func (m moving) text(change func(source) (string, error)) (string, error) {
	before, err := change(m.oldStore)
	if err != nil {
		return "", err
	}
	after, err := change(m.newStore)
	return moveScheme + ":" + m.phase.String() + " " + before + " " + after, err
}
