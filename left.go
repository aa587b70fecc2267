package soloist

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/soloist-dev/soloist/store"
)

// left is the state of the record that every replica watches: it lists the jobs whose runs were interrupted, so that
// other replicas need not wait until the leases would have expired. The records of the jobs themselves are not watched:
// there may be thousands, and they change with every run.
type left struct {
	Jobs map[string]int64 `json:"jobs,omitempty"` // the token under which the run of a job was interrupted
	All  int64            `json:"all,omitempty"`  // runs under tokens up to this one may have been interrupted, too, and are not listed
}

// mostLeft is how many jobs the record lists.
const mostLeft = 100

func parseLeft(b []byte) left {
	var l left
	_ = json.Unmarshal(b, &l) // a state that cannot be read lists nothing
	return l
}

// add adds jobs, and drops others first if there are too many: those with the lowest tokens, which were interrupted first unless each job counts its own. A replica may not
// have heard of a job that is dropped, so All becomes one that no replica has seen.
func (l *left) add(jobs map[string]int64) {
	if l.Jobs == nil {
		l.Jobs = map[string]int64{}
	}
	for name, token := range jobs {
		l.Jobs[name] = max(l.Jobs[name], token) // a notice may come late, after that of a later run
	}
	names := slices.SortedFunc(maps.Keys(l.Jobs), func(a, b string) int {
		_, newA := jobs[a]
		_, newB := jobs[b]
		switch {
		case newA && !newB:
			return 1
		case newB && !newA:
			return -1
		}
		return cmp.Compare(l.Jobs[a], l.Jobs[b])
	})
	if drop := names[:max(0, len(names)-mostLeft)]; len(drop) > 0 {
		l.All++
		for _, name := range drop {
			l.All = max(l.All, l.Jobs[name])
			delete(l.Jobs, name)
		}
	}
}

// since reports whether the run of a job was interrupted, or may have been, after the lease with a token. What may have been up to the token seen is known.
func (l left) since(job string, token, seen int64) bool {
	return l.Jobs[job] > token || l.All > max(token, seen)
}

// tellLeft notifies the other replicas that runs of jobs were interrupted. The client may be closing.
func (c *core) tellLeft(jobs map[string]int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*c.cfg.RequestTimeout)
	defer cancel()
	claim := store.Claim{Name: c.names.prefix + nameControls, Holder: c.newHolder(), TTL: controlTTL}
	before, open := c.clock.earliest(), false // a request may yet be granted
	for wait := newBackoff(c.cfg.RequestTimeout / 8); ; {
		outs, err := c.acquires.ask(ctx, []store.Claim{claim})
		if err == nil {
			err = outs[0].Err
		}
		if err == nil {
			all := parseLeft(outs[0].Grant.State)
			all.add(jobs)
			state, _ := json.Marshal(all) // of strings and numbers; it cannot fail
			err = c.releaseBatch([]store.Release{{Name: claim.Name, Holder: claim.Holder, Token: outs[0].Grant.Token, State: state, Retain: Forever}})[0]
			if open && !errors.Is(err, ErrUnknown) { // else this release may yet be carried out
				c.releaseOrphans([]store.Claim{claim}, before)
			}
			return err
		}
		open = open || errors.Is(err, ErrUnknown)
		if !wait.sleep(ctx) {
			if open {
				c.releaseOrphans([]store.Claim{claim}, before)
			}
			return err
		}
	}
}

// tell notifies the other replicas of runs that were interrupted, and logs a failure.
func (c *core) tell(jobs map[string]int64) {
	if len(jobs) == 0 {
		return
	}
	if err := c.tellLeft(jobs); err != nil {
		c.log.Warn("telling other replicas that runs were interrupted; they look when the leases would have ended", "jobs", len(jobs), "err", err)
	}
}
