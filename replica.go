package soloist

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// replicaState is the state of a replica's record. The record is a lease that is renewed with all others, so it is live
// while the replica is.
type replicaState struct {
	Replica string `json:"replica"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
	Started int64  `json:"started"`        // unix ms, by its clock
	Clock   int64  `json:"clock"`          // its clock when it claimed the record, unix ms
	Jobs    int    `json:"jobs"`           // how many jobs it has
	Digest  string `json:"digest"`         // of all definitions
	TTL     int64  `json:"ttl"`            // of its lease, in ms
	Died    int64  `json:"died,omitempty"` // when another replica noticed its death, unix ms
}

// A carried is a job in a replica's record: the hash of its name and the hash of its definition.
type carried struct{ name, definition uint32 }

const (
	carriedBytes   = 8
	carriedPerPage = 4096 // jobs in a record
	keepDead       = time.Hour
	mostJobs       = 10_000_000 // that the record of a replica is believed to list: a request for each page
)

// definitionOf returns the hash of everything that replicas must agree on about a job.
func definitionOf(j Job, opts Options) uint32 {
	schedule := j.Schedule
	if a, ok := schedule.(at); ok { // one instant has many texts
		schedule = at(time.Time(a).Truncate(time.Millisecond).UTC())
	}
	return hash32(fmt.Sprint(describe(schedule), "\x00", j.Description, "\x00", opts.TTL, opts.AtLeast, opts.AtMost, j.Jitter, j.Missed, j.MissedCap, j.Grace, j.Crash, j.Retry))
}

func hash32(text string) uint32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return uint32(h.Sum64() >> 32)
}

// pages returns the states of the records that list the jobs of a replica.
func pages(definitions map[string]uint32) [][]byte {
	all := make([]carried, 0, len(definitions))
	for name, definition := range definitions {
		all = append(all, carried{hash32(name), definition})
	}
	slices.SortFunc(all, func(a, b carried) int { return int(int64(a.name) - int64(b.name)) })
	var states [][]byte
	for page := range slices.Chunk(all, carriedPerPage) {
		var b []byte
		for _, c := range page {
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, c.name), c.definition)
		}
		states = append(states, []byte(base64.StdEncoding.EncodeToString(b)))
	}
	return states
}

// digestOf returns the digest of all definitions of a replica, which are on pages.
func digestOf(pages [][]byte) string { return fmt.Sprintf("%08x", hash32(fmt.Sprintf("%s", pages))) }

func pageCount(jobs int) int { return (jobs + carriedPerPage - 1) / carriedPerPage }

// parsePage adds the jobs of a page to jobs.
func parsePage(state []byte, jobs map[uint32]uint32) error {
	b, err := base64.StdEncoding.DecodeString(string(state))
	if err == nil && len(b)%carriedBytes != 0 {
		err = fmt.Errorf("it has %d bytes", len(b))
	}
	if err != nil {
		return unreadableRecord(fmt.Errorf("the jobs of a replica cannot be read: %w", err))
	}
	for ; len(b) > 0; b = b[carriedBytes:] {
		jobs[binary.BigEndian.Uint32(b)] = binary.BigEndian.Uint32(b[4:])
	}
	return nil
}

// A presence publishes that a replica is alive, and which jobs it has.
type presence struct {
	client *Client // with the client's options, without those for work
	start  time.Time
	dirty  chan struct{} // has a value when the jobs have changed

	shows func() // called when the records list the jobs that were set; may be nil

	mu   sync.Mutex
	jobs map[string]uint32 // as set; it does not change
	sets int               // how often it was set
	seen int               // which of the sets the records list

	// Used only by the goroutine that calls announce and keep.
	id      string
	holder  string       // of the records that list the jobs: this replica alone claims them. The holders of its own record begin with it
	lease   *Lease       // nil before the first announce
	claimed time.Time    // when it was requested
	claims  int          // how often it was
	shown   int          // pages that may have been written
	state   replicaState // what its record says, or was to say last
}

func newPresence(c *Client) *presence {
	p := &presence{client: c.plain(Options{TTL: c.opts.TTL, Margin: c.opts.Margin}), start: time.Now(), dirty: make(chan struct{}, 1)}
	p.identify()
	return p
}

// identify gives the replica records that nobody else knows of.
func (p *presence) identify() {
	p.holder = p.client.newHolder()
	p.id = p.holder[len(replicaOf(p.holder))+1:]
	p.shown = 0
}

// set replaces the jobs that the replica has: the hashes of their definitions by their names.
func (p *presence) set(jobs map[string]uint32) {
	p.mu.Lock()
	p.jobs = jobs
	p.sets++
	p.mu.Unlock()
	p.changed()
}

// upToDate reports whether the records list the jobs that were set last.
func (p *presence) upToDate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen == p.sets
}

func (p *presence) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

func (p *presence) definitions() (jobs map[string]uint32, set int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs, p.sets
}

// showed notes that the records list a set of jobs.
func (p *presence) showed(set int) {
	p.mu.Lock()
	p.seen = set
	p.mu.Unlock()
	if p.shows != nil {
		p.shows()
	}
}

// announce creates the record of the replica, or updates it.
func (p *presence) announce(ctx context.Context) error {
	select {
	case <-p.dirty:
	default:
		if p.lease != nil && p.lease.Err() == nil {
			return nil
		}
	}
	err := p.write(ctx)
	if err != nil {
		p.changed()
		return fmt.Errorf("announcing this replica: %w", err)
	}
	return nil
}

// write claims the record, unless it has it, then writes the records that list the jobs, and at last what the record says of them. Who takes the replica for dead removes
// all of them while it has the record.
func (p *presence) write(ctx context.Context) error {
	if p.lease == nil || p.lease.Err() != nil {
		lease, err := p.claim(ctx)
		if err != nil {
			return err
		}
		p.lease = lease
	}
	definitions, set := p.definitions()
	c := p.client
	state := replicaState{Replica: c.cfg.Replica, PID: os.Getpid(), Version: c.cfg.Version, Started: p.start.UnixMilli(), TTL: c.opts.TTL.Milliseconds(), Jobs: len(definitions)}
	state.Host, _ = os.Hostname()
	states := pages(definitions)
	state.Digest = digestOf(states)
	state.Clock = p.claimed.UnixMilli()
	p.state, p.shown = state, max(len(states), p.shown)
	if err := errors.Join(c.overwrite(ctx, c.pageNames(p.id, p.shown), time.Time{}, p.sameHolder, func(i int) store.Release {
		if i < len(states) {
			return store.Release{State: states[i], Retain: Forever}
		}
		return store.Release{State: []byte{}}
	})...); err != nil {
		return err
	}
	p.shown = len(states)
	b, _ := json.Marshal(state) // of strings and numbers; it cannot fail
	if err := p.lease.SetState(ctx, b); err != nil {
		return err
	}
	p.showed(set)
	return nil
}

// claim claims the record. A claim or a renewal of this replica that took effect after it had been given up is not in the way: it is released. Nor is another that has taken
// the replica for dead and has its record to remove what it left. That one may have died meanwhile, so the replica does not wait for it: it takes a record of another name.
func (p *presence) claim(ctx context.Context) (*Lease, error) {
	c := p.client
	for again := false; ; again = true {
		p.claimed = time.Now()
		p.claims++
		t := target{shown: "replica " + p.id, name: c.names.prefix + kindReplica + p.id, holder: p.holder + "-" + strconv.Itoa(p.claims)}
		lease, err := c.try(ctx, t)
		var held *HeldError
		switch {
		case again || !errors.As(err, &held):
			return lease, err
		case strings.HasPrefix(held.Holder, p.holder+"-"):
			_ = c.releaseBatch([]store.Release{{Name: t.name, Holder: held.Holder, Token: held.Token, State: []byte{}}}) // if it is not released, the next claim says so
		default:
			p.identify()
		}
	}
}

// keep maintains the record of the replica until ctx ends, and compares its jobs with those of others when they have
// changed. announce has been called before.
func (p *presence) keep(ctx context.Context) {
	for wait := newBackoff(longestPause); ; {
		p.compare(ctx)
		select {
		case <-p.lease.Context().Done():
		case <-p.dirty:
			p.changed()
		case <-ctx.Done():
			p.withdraw()
			return
		}
		for ctx.Err() == nil && p.announce(ctx) != nil {
			wait.sleep(ctx)
		}
	}
}

// withdraw removes the records of the replica, so that it is not taken for a dead one. If it cannot remove those that list its jobs, it is: who buries it then
// removes them.
func (p *presence) withdraw() {
	c := p.client
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.cfg.RequestTimeout)
	defer cancel()
	rel := store.Release{State: []byte{}}
	pages := errors.Join(c.overwrite(ctx, c.pageNames(p.id, p.shown), time.Time{}, p.sameHolder, func(int) store.Release { return store.Release{State: []byte{}} })...)
	if pages != nil {
		p.state.Jobs = max(p.state.Jobs, (p.shown-1)*carriedPerPage+1) // for so many pages
		rel.State, _ = json.Marshal(p.state)                           // of strings and numbers; it cannot fail
		rel.Retain = Forever
	}
	released := p.lease.release(rel)
	if gone(released) {
		released = nil
	}
	if err := errors.Join(pages, released); err != nil {
		c.log.Warn("withdrawing this replica; others take it for dead", "err", err)
	}
}

// pageNames returns the names of the records that list the jobs of a replica.
func (c *core) pageNames(id string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = c.names.prefix + kindReplicaJobs + id + "/" + strconv.Itoa(i)
	}
	return names
}

// allPages returns the names of all records that list the jobs of a replica which does not say how many there are.
func (c *core) allPages(ctx context.Context, id string) (names []string, err error) {
	for r, err := range c.list(ctx, c.names.prefix+kindReplicaJobs+id+"/") {
		if err != nil {
			return nil, fmt.Errorf("listing the records of the jobs of a replica: %w", err)
		}
		names = append(names, r.Name)
	}
	return names, nil
}

func (p *presence) sameHolder() string { return p.holder }

var errTooLate = errors.New("granted too late to be written over")

// overwrite acquires records and releases them with the result of with. It skips records that another holder has. holder
// returns the holder of each claim. Each release raises the mark: if an earlier claim of the same holder is given back
// meanwhile, and that ends the lease, the record has a lower mark, and the release is lost. It would count as a repetition. A record that is granted
// after an instant of the client's clock, unless that is zero, is given back as it is. It returns the error of each.
func (c *core) overwrite(ctx context.Context, names []string, until time.Time, holder func() string, with func(int) store.Release) []error {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: holder(), TTL: controlTTL}
	}
	var errs []error
	for some := range slices.Chunk(claims, batchLimit) {
		start := len(errs)
		outs, _, err := c.claimBatch(ctx, some, c.clock.earliest())
		if err != nil {
			return append(errs, slices.Repeat([]error{err}, len(names)-start)...)
		}
		var releases []store.Release
		var at []int
		for i, out := range outs {
			if errs = append(errs, out.Err); out.Err != nil {
				continue
			}
			if !until.IsZero() && c.clock.latest().After(until) {
				errs[start+i] = errTooLate
				releases, at = append(releases, c.releaseOfGrant(some[i], out.Grant, time.Time{})), append(at, start+i)
				continue
			}
			rel := with(start + i)
			rel.Name, rel.Holder, rel.Token, rel.Mark = some[i].Name, some[i].Holder, out.Grant.Token, out.Grant.Mark+1
			releases, at = append(releases, rel), append(at, start+i)
		}
		if len(releases) > 0 {
			for i, err := range c.releaseBatch(releases) {
				errs[at[i]] = cmp.Or(errs[at[i]], err)
			}
		}
	}
	return errs
}

// A fleet is what the records of all replicas contain.
type fleet struct {
	replicas []ReplicaInfo
	unlisted []ReplicaInfo                // those that died before their records said anything, or anything else than that they had died before
	bad      faults                       // what may hide jobs that a live replica has
	badDead  faults                       // records that cannot be read, of replicas that are not alive
	jobs     map[string]map[uint32]uint32 // the definitions by the names of jobs, as hashes, by the replicas' ids; of those that are alive
}

// fleet reads the records of replicas, and the jobs of those that want selects.
func (c *core) fleet(ctx context.Context, want func(ReplicaInfo) bool) fleet {
	f := fleet{jobs: map[string]map[uint32]uint32{}}
	prefix := c.names.prefix + kindReplica
	for r, err := range c.list(ctx, prefix) {
		if err != nil {
			f.bad.add(fmt.Errorf("listing replicas: %w", err))
			break
		}
		id := strings.TrimPrefix(r.Name, prefix)
		info, ok, err := replicaInfo(id, r, time.Now())
		if r.Free() && r.Holder != "" && (len(r.State) == 0 || !info.died.IsZero()) { // it was not released
			f.unlisted = append(f.unlisted, ReplicaInfo{id: id})
		}
		if err != nil && r.Free() {
			f.badDead.add(err)
		} else {
			f.bad.add(err)
		}
		if ok {
			f.replicas = append(f.replicas, info)
		}
	}
	c.readJobs(ctx, &f, want)
	return f
}

// readJobs reads the jobs of replicas. If replicas have the same jobs, it reads them once.
func (c *core) readJobs(ctx context.Context, f *fleet, want func(ReplicaInfo) bool) {
	sets := map[string]map[uint32]uint32{}
	for _, info := range f.replicas {
		if !info.Alive || !want(info) {
			continue
		}
		key := fmt.Sprint(info.Jobs, " ", info.digest)
		if sets[key] == nil {
			jobs := map[uint32]uint32{}
			records, errs, err := c.peekEach(ctx, c.pageNames(info.id, pageCount(info.Jobs)))
			f.bad.add(err)
			states := make([][]byte, len(records))
			for i, r := range records {
				f.bad.add(errs[i])
				f.bad.add(parsePage(r.State, jobs))
				states[i] = r.State
			}
			if len(jobs) == 0 && info.Jobs > 0 { // it was just withdrawn, or it cannot be read
				continue
			}
			if digestOf(states) != info.digest { // its jobs are changing: another of the same digest has others
				f.jobs[info.id] = jobs
				continue
			}
			sets[key] = jobs
		}
		f.jobs[info.id] = sets[key]
	}
}

// compare warns about jobs of which another replica has a different definition, and buries the replicas that have died.
func (p *presence) compare(ctx context.Context) {
	mine, _ := p.definitions()
	c := p.client
	digest := digestOf(pages(mine))
	f := c.fleet(ctx, func(info ReplicaInfo) bool { return info.id != p.id && info.digest != digest })
	if err := f.bad.err(); err != nil && ctx.Err() == nil {
		c.log.Warn("comparing the definitions of jobs with those of other replicas", "err", err)
	}
	names := slices.Sorted(maps.Keys(mine))
	for _, info := range f.replicas {
		var differ []string
		for _, name := range names {
			if other, has := f.jobs[info.id][hash32(name)]; has && other != mine[name] {
				differ = append(differ, name)
				c.observe(ctx, Event{Kind: EventDiffers, Subject: Subject{Kind: KindJob, Name: name}, Err: fmt.Errorf("replica %s has another definition of it", info.Replica)})
			}
		}
		if len(differ) > 0 {
			shown := differ[:min(len(differ), mostFaults)]
			c.log.Warn("another replica has other definitions of jobs; the scheduled times of both are run", "replica", info.Replica, "version", info.Version, "jobs", len(differ), "such as", shown)
		}
	}
	c.bury(ctx, append(f.replicas, f.unlisted...))
}

// bury records which replicas have died, so that lists show them for an hour. After that the store may delete them. Of those that were never listed it removes
// what they left.
func (c *core) bury(ctx context.Context, replicas []ReplicaInfo) {
	var dead, unlisted []ReplicaInfo
	for _, info := range replicas {
		switch {
		case info.state == (replicaState{}):
			unlisted = append(unlisted, info)
		case !info.Alive && info.died.IsZero():
			dead = append(dead, info)
		}
	}
	bury := func(some []ReplicaInfo) {
		if err := c.burySome(ctx, some); err != nil && !errors.Is(err, ErrHeld) && ctx.Err() == nil {
			c.log.Warn("removing the records of replicas that have died", "err", err)
		}
	}
	for some := range slices.Chunk(dead, batchLimit) {
		bury(some)
	}
	for some := range slices.Chunk(unlisted, 16) { // each takes a list of its pages, while the records are held
		bury(some)
	}
}

// burySome buries one batch of replicas. It has their records while it removes those that list their jobs: a replica that has come back writes them when it has its record.
func (c *core) burySome(ctx context.Context, dead []ReplicaInfo) error {
	claims := make([]store.Claim, len(dead))
	for i, info := range dead {
		claims[i] = store.Claim{Name: c.names.prefix + kindReplica + info.id, Holder: c.newHolder(), TTL: controlTTL}
	}
	begin := c.clock.earliest()
	outs, _, err := c.claimBatch(ctx, claims, begin)
	if err != nil {
		return err
	}
	var errs []error
	var pages []string
	var of []int // by page, whose it is
	var releases []store.Release
	list := func(replica int, names []string, record store.Release) {
		pages, of = append(pages, names...), append(of, slices.Repeat([]int{replica}, len(names))...)
		record.Name, record.Holder, record.Token = claims[replica].Name, claims[replica].Holder, outs[replica].Grant.Token
		releases = append(releases, record)
	}
	for i, out := range outs {
		if errs = append(errs, out.Err); out.Err != nil {
			continue
		}
		if dead[i].state == (replicaState{}) {
			left, err := c.allPages(ctx, dead[i].id)
			if err != nil { // then the lease ends by itself, and the record is found again
				errs = append(errs, err)
				continue
			}
			list(i, left, store.Release{State: []byte{}})
			continue
		}
		state := dead[i].state
		state.Died = time.Now().UnixMilli()
		b, _ := json.Marshal(state) // of strings and numbers; it cannot fail
		list(i, c.pageNames(dead[i].id, pageCount(dead[i].Jobs)), store.Release{State: b, Retain: keepDead})
	}
	// A replica that has come back gets its record when the lease ends, and writes its pages, which must not be overwritten. What is left is found again.
	for i, err := range c.overwrite(ctx, pages, begin.Add(controlTTL/2), c.newHolder, func(int) store.Release { return store.Release{State: []byte{}} }) {
		if err != nil { // as if they could not be listed
			errs = append(errs, err)
			releases = slices.DeleteFunc(releases, func(r store.Release) bool { return r.Name == claims[of[i]].Name })
		}
	}
	if len(releases) == 0 {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, c.releaseBatch(releases)...)...)
}

// buildVersion returns the version of the program from its build information.
var buildVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "(devel)" {
			version = s.Value[:min(12, len(s.Value))]
		}
	}
	return version
})
