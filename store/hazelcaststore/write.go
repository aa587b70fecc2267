package hazelcaststore

import (
	"fmt"
	"slices"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A write replaces one entry, or makes it.
type write struct {
	change   casstore.Change
	replaces value           // what it replaces; empty if it makes the entry
	text     string          // what it writes
	sent     casstore.Moment // when, or a moment before
}

func newWrite(c casstore.Change) (w write, err error) {
	w = write{change: c, sent: casstore.Now()}
	if c.Version != "" {
		if w.replaces, err = parse(c.Version); err != nil {
			return write{}, err
		}
	}
	w.text, err = encode(c.Record, w.replaces)
	return w, err
}

// refused returns the result of a write that was refused, by the entry that is there now. The members among
// themselves repeat a request whose reply was lost. So a write may have taken effect before its repetition was
// refused. The entry's past shows that.
func (w write) refused(now casstore.Item) casstore.Result {
	conflict := casstore.Result{Err: casstore.ErrConflict, Current: &now}
	unknown := func(why string) casstore.Result {
		return casstore.Result{Err: store.AsUnknown(fmt.Errorf("hazelcaststore: %q %s", w.change.Name, why)), Current: &now}
	}
	switch {
	case now.Err != nil:
		return conflict
	case now.Version == "" && w.change.Record.Released:
		return unknown("is gone: it was released and forgotten, or the cluster has lost it")
	case now.Version == "":
		return conflict
	}
	there, err := parse(now.Version)
	switch {
	case err != nil:
		return unknown(err.Error())
	case slices.Contains(there.Past, w.change.Record.Write):
		return casstore.Result{Version: w.text} // it took effect, and others have written since
	case there.remembers(w.replaces.Version), w.wouldHold():
		return conflict
	}
	return unknown("was written by too many others since, or forgotten and made anew")
}

// remembers reports whether the entry knows all writes that came after a version, or all that there were if it is "". A short past that does not
// have the version is that of an entry that was removed and made anew since: what came before the removal is not in it.
func (v value) remembers(version string) bool {
	if version == "" {
		return len(v.Past) < pastLimit
	}
	return v.Version == version || slices.Contains(v.Past, version)
}

// wouldHold reports whether the entry would still be as it was written, because the write began a lease that cannot
// have ended yet.
func (w write) wouldHold() bool {
	r := w.change.Record
	return r.Token != w.replaces.Token && !r.Released && w.sent.Since() < r.TTL
}
