package move

import (
	"bytes"

	"github.com/soloist-dev/soloist/store"
)

// Twins are what the two stores have of a name.
type twins struct {
	name          string
	truth, shadow store.Record
	inBoth        bool
}

// same reports whether a name needs no copy. It does not compare the tokens unless the next phase needs those that the store that decides now has to be the greater ones.
func (p twins) same(tokens bool) bool {
	if tokens {
		return p.agree() && p.truth.Token > p.shadow.Token && !p.interrupted()
	}
	return p.agree() && !p.interrupted() || p.plain() && p.truth.Token == 0
}

// plain reports whether the name was released in order, and has no mark and no state in either store: all that a record of it tells is a token. A store that
// forgets soon does not list it any more, while the other one still does.
func (p twins) plain() bool {
	bare := func(r store.Record) bool { return r.Free() && r.Holder == "" && r.Mark == 0 && len(r.State) == 0 }
	return bare(p.truth) && bare(p.shadow)
}

// agree reports whether the stores have the same mark and state.
func (p twins) agree() bool {
	return p.inBoth && p.truth.Mark == p.shadow.Mark && bytes.Equal(p.truth.State, p.shadow.State)
}

func (p twins) taken() bool { return !p.truth.Free() || !p.shadow.Free() }

// halfHeld reports whether the last holder in the store that decides did not have the shadow. Such a holder is in the phase behind: what it
// will write is in one store only, and so is its crash.
func (p twins) halfHeld() bool { return p.truth.Holder != "" && p.truth.Holder != p.shadow.Holder }

// swapped reports whether one holder has the name in both stores, and they agree but for their tokens: the store that decides does not have the greater one.
// Either the shadow's lease ended while its holder could not reach the shadow, and the holder claimed it once more: nobody has been told that token. Or
// the grants are those of a replica in the other middle phase, which was told the greater one, and has ended.
func (p twins) swapped() bool {
	return p.agree() && !p.truth.Free() && p.truth.Holder == p.shadow.Holder && p.truth.Holder != "" && !p.interrupted()
}

// interrupted reports whether the name was left by a copy that was killed. It is copied again: else whoever takes it next would be told of a crash that never was.
func (p twins) interrupted() bool {
	return isCopier(p.name, p.truth.Holder) || isCopier(p.name, p.shadow.Holder)
}

// abandoned reports whether the last holder died, and was no copy.
func (p twins) abandoned() bool { return p.truth.Holder != "" && !isCopier(p.name, p.truth.Holder) }

// A task is what has to be done for a name whose records differ.
type task int

const (
	touch task = iota // both stores have to change, or it is not known which
	fill              // the other store lacks what the one that decides has
	raise             // only the tokens differ
	tasks
)

// task returns what has to be done for a name that is not the same.
func (p twins) task(tokens bool) task {
	switch {
	case p.truth.Holder == "" && p.shadow.Holder == "" && p.agree():
		return raise
	case !tokens && p.truth.Holder == "" && p.truth.Token != 0 && p.truth.Mark >= p.shadow.Mark:
		return fill
	}
	return touch
}
