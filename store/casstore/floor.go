package casstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store/internal/tokens"
)

// readFloor returns the floor: tokens up to it may have been forgotten.
func (s *Store) readFloor(ctx context.Context) (int64, error) {
	item, err := s.floorItem(ctx)
	if err != nil {
		return 0, err
	}
	return s.learnFloor(item.Record.Token), nil
}

// learnFloor remembers a floor, and returns the highest of those that were read.
func (s *Store) learnFloor(floor int64) int64 {
	for {
		known := s.floor.Load()
		if floor <= known {
			return known
		}
		if s.floor.CompareAndSwap(known, floor) {
			return floor
		}
	}
}

func (s *Store) floorItem(ctx context.Context) (Item, error) {
	items, err := s.read(ctx, []string{FloorName})
	if err != nil {
		return Item{}, err
	}
	floor := items[0]
	if floor.Err == nil && !s.cfg.Sequenced && floor.Record.Token > tokens.Forgettable {
		floor.Err = fmt.Errorf("casstore: the floor of tokens, which is the record %q, has the token %d, and no sweep writes that: something else has written it; "+
			"replace it by one with the greatest token that any name has had", FloorName, floor.Record.Token)
	}
	return floor, floor.Err
}

// raiseFloor raises the floor to at least a token. Others read it from the backend: what this process knows of it does
// not count.
func (s *Store) raiseFloor(ctx context.Context, token int64) error {
	for range attempts {
		item, err := s.floorItem(ctx)
		if err != nil {
			return err
		}
		known := s.learnFloor(item.Record.Token)
		if item.Record.Token >= token {
			return nil
		}
		record := &Record{Holder: "floor", Token: max(token, known), Released: true}
		s.stamp(record)
		results, err := s.change(ctx, []Change{{Name: FloorName, Version: item.Version, Record: record}})
		if err != nil {
			return err
		}
		if err := results[0].Err; err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("casstore: the floor of tokens, which is the record %q, was %w, %d times in turn", FloorName, ErrConflict, attempts)
}
