package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Plan is all that makes one history differ from another.
type Plan struct {
	Seed      uint64
	Work      Work
	Replicas  int
	Ops       int           // how many things each thread of a replica does at most
	Names     int           // how many locks, elements, … they meet at
	TTL       time.Duration // of leases
	Margin    time.Duration // 0 is the default of the client
	Trouble   time.Duration // how long the adversary is at work
	Tail      time.Duration // how long everything is well after it
	Odds      Odds
	Lag       time.Duration   // of each answer of the store, while the adversary is at work
	Uneven    bool            // locks have several TTLs
	Clocks    []time.Duration // by how much the wall clocks of lives are ahead; none if all are right
	Drift     []float64       // of each replica: by what part the store's clock runs faster than its own
	Suspends  []Suspend
	Cuts      []Cut
	Crashes   []Crash
	Stops     []Stop
	Waiter    bool          // the store reports releases
	Chooser   bool          // the store takes any one of several names in one step
	Clockless bool          // the store has no clock; see DrawClockless
	Lines     bool          // the store keeps those who wait in a line
	Sweeps    bool          // a person sweeps the store now and then
	Retain    time.Duration // of processed elements; 0 is forever
	Limits    bool          // every other replica has a permit more for the semaphore
	Retries   bool          // failed elements are retried by a person
	Commits   int           // of a hundred runs and elements, those that are recorded in a transaction of the user's
	Job       JobPlan
	More      []JobPlan       // beside it
	Without   map[string]bool `json:",omitempty"` // faults left out, in the words in which they are told; for shrinking
	Control   Control         // what is broken on purpose
}

// crashesAlone reports whether nothing happens to replicas but that some die.
func (p *Plan) crashesAlone() bool {
	return p.Odds == (Odds{}) && len(p.Cuts) == 0 && len(p.Suspends) == 0 && len(p.Stops) == 0
}

// patience is how long a replica may have to wait for a lock when all is well and all the others want it too. Where there are lines the
// name may be handed over to places that were left without a word, and stays there for a TTL each.
func (p *Plan) patience() time.Duration {
	d := p.observed() + 2*p.TTL + time.Duration(p.Replicas)*1500*time.Millisecond
	if p.Lines {
		d += p.TTL
	}
	if p.Uneven {
		d += 2 * p.TTL
	}
	return d
}

// Work is what a history is about.
type Work string

// The kinds of work.
const (
	Locks    Work = "locks"
	Permits  Work = "permits"
	Leaders  Work = "leaders"
	Elements Work = "elements"
	Jobs     Work = "jobs"
	Cron     Work = "cron" // a job of a cron expression over a change of the clocks
	Mixed    Work = "mixed"
)

// Odds are how many of a thousand requests meet each fault.
type Odds struct {
	Refuse      int // nothing was sent
	LoseRequest int // never arrives
	LoseReply   int // takes effect, and nobody is told
	Late        int // takes effect after its caller has given up
	Repeat      int // takes effect once more, later
	Part        int // some elements of the batch have no answer
	Slow        int // request or reply take long
	Fail        int // some elements of the batch are refused with an error of the store, and have no effect
	Fade        int // the reply is late, and after it the replica is cut off for longer than a lease
	Lock        int // some elements of a batch of claims are refused because a transaction has locked their records
}

// A Suspend stops the clock and the timers of a replica's machine for a while.
type Suspend struct {
	Replica int
	At, For time.Duration
}

// A Cut keeps a replica from the store. Frozen, it is the replica that stands still: what the store has answered meanwhile is
// read after it.
type Cut struct {
	Replica  int
	From, To time.Duration
	Frozen   bool
}

// A Crash ends a replica at one of its requests.
type Crash struct {
	Replica int
	Request int  // the how manieth since the beginning
	Effect  bool // the request still reaches the store
	Again   time.Duration
}

// A Stop ends a replica in good order; another takes its place.
type Stop struct {
	Replica   int
	At, Again time.Duration
}

// jobs are the jobs that there are.
func (p *Plan) jobs() []JobPlan {
	switch p.Work {
	case Jobs, Cron, Mixed:
		return append([]JobPlan{p.Job}, p.More...)
	}
	return nil
}

// A JobPlan is how a job is set up.
type JobPlan struct {
	Name       string
	TTL        time.Duration // 0 is that of the client
	AtMost     time.Duration
	Uneven     bool          // every other replica has half the TTL, and another Grace
	Other      time.Duration // Every of every other replica; 0 is that of all
	Absent     uint64        // a bit for each replica that does not run it
	Every      time.Duration // 0 with Delay
	Delay      time.Duration
	Expression string
	Begin      time.Time     // when the history begins, for Expression
	Within     time.Duration // after Begin, all that Expression names has come
	Missed     string
	Cap        int
	Grace      time.Duration
	GiveUp     bool
	Attempts   int
	Backoff    time.Duration
	AtLeast    time.Duration
	Jitter     time.Duration
	Fails      int // of a hundred runs
	Longest    time.Duration
	Person     bool // pauses, resumes and triggers it
	Herd       bool // one replica asks for the others too
}

// A Control is something broken on purpose, which the checkers must catch: a run in which they do not is void.
type Control string

// The positive controls.
const (
	NoControl Control = ""
	Forgets   Control = "a store that forgets in a failover"
	FastClock Control = "a clock that differs by more than the margin covers"
	Unmarked  Control = "a transaction that does not record what it was for"
	FarClocks Control = "wall clocks that differ by more than is said"
	Unfenced  Control = "a resource that lets any token in"
	Stateless Control = "a store that leaves some states as they were"
	Silent    Control = "a client that tells nothing of a lock that is held"
	Unled     Control = "a client that returns from Lead without having led"
	Untrue    Control = "a client that tells of an element that another has as of one that is processed"
)

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x50a1))
	p := Plan{Seed: seed, Replicas: 2 + rng.IntN(3), Waiter: rng.IntN(5) > 0, Chooser: rng.IntN(3) > 0, Sweeps: rng.IntN(4) == 0}
	p.Work = draw(rng, weighted[Work]{{Locks, 32}, {Permits, 8}, {Leaders, 6}, {Elements, 18}, {Jobs, 26}, {Cron, 1}, {Mixed, 4}})
	p.TTL = draw(rng, weighted[time.Duration]{{6 * time.Second, 6}, {30 * time.Second, 2}, {time.Second, 1}})
	if p.Work == Cron { // it takes hours, in which shorter leases would be renewed tens of thousands of times
		p.TTL = time.Minute
	}
	if rng.IntN(4) == 0 {
		p.Margin = p.TTL / time.Duration(4+rng.IntN(30))
	}
	p.Ops = 3 + rng.IntN(4)
	p.Names = 1 + rng.IntN(2)
	p.Trouble = p.TTL * time.Duration(4+rng.IntN(8))
	if p.TTL > 10*time.Second { // requests are paid for by the second
		p.Trouble /= 2
	}
	p.Tail = 4*p.TTL + 2*time.Second
	switch p.Work {
	case Elements:
		p.Names = 2 + rng.IntN(6)
	case Jobs, Cron:
		p.Job = drawJob(rng, p.TTL, p.Work == Cron)
	case Mixed:
		p.Job = drawJob(rng, p.TTL, false)
		p.Ops = 2
	}
	if rng.IntN(150) == 0 && p.Work != Cron {
		p.Replicas, p.Ops = 12+rng.IntN(25), 2
	}
	if p.Work != Jobs && p.Work != Cron { // their replicas wait for each other
		p.Tail += time.Duration(p.Replicas-2) * 1500 * time.Millisecond
	}
	p.drawFaults(rng)
	if p.Work == Cron {
		p.Trouble = p.Job.Within
		p.fewer(2)
		p.Suspends, p.Cuts = nil, nil
		p.Odds = Odds{Slow: 40, LoseReply: 40}
	}
	p.driftLess(1500 * time.Millisecond)
	// A suspend changes how long a lease lives that is granted later, which the place in a line does not know.
	p.Lines = len(p.Suspends) == 0 && rand.New(rand.NewPCG(seed, 0x11e)).IntN(3) > 0
	if p.Lines {
		p.Tail += p.TTL
	}
	p.Job.Herd = rng.IntN(2) == 0
	p.Job.Name = "tick"
	if locks := rand.New(rand.NewPCG(seed, 0x10c5)); p.Work == Locks && locks.IntN(5) == 0 {
		p.Uneven, p.Names = true, 2+locks.IntN(3)
		p.Tail += 2 * p.TTL
		if locks.IntN(2) == 0 {
			p.Lag = upTo(locks, p.TTL/12)
		}
	}
	if short := rand.New(rand.NewPCG(seed, 0x2e7a)); p.Work == Elements && short.IntN(3) == 0 {
		p.Retain, p.Sweeps = p.TTL/2+upTo(short, 3*p.TTL), true
	}
	if fails := rand.New(rand.NewPCG(seed, 0xfa11)); p.Work != Cron && fails.IntN(6) == 0 {
		p.Odds.Fail = fails.IntN(80)
	}
	users := rand.New(rand.NewPCG(seed, 0x05e5))
	p.Limits = (p.Work == Permits || p.Work == Mixed) && users.IntN(3) == 0
	p.Retries = p.Work == Elements && p.attempts() > 0 && users.IntN(2) == 0
	if (p.Work == Elements || p.Work == Jobs || p.Work == Mixed) && users.IntN(4) == 0 {
		p.Commits = 20 + users.IntN(81)
	}
	if p.Work == Jobs && p.Job.Every > 0 && users.IntN(20) == 0 {
		p.Job.Other = p.Job.Every + p.TTL/2 - (p.TTL / 2 % time.Second)
	}
	if p.Work == Jobs && !p.Job.Person && p.Job.Jitter == 0 && users.IntN(8) == 0 {
		p.drawClocks(users)
	}
	if more := rand.New(rand.NewPCG(seed, 0x30b5)); p.Work == Jobs && len(p.Clocks) == 0 && more.IntN(3) == 0 {
		p.drawMore(more)
	}
	if locks := rand.New(rand.NewPCG(seed, 0x10cd)); p.Work != Cron && locks.IntN(5) == 0 {
		p.Odds.Lock = locks.IntN(100)
	}
	return p
}

// drawMore adds jobs beside the first. Some are due together with it, so that a claim group has several.
func (p *Plan) drawMore(rng *rand.Rand) {
	for i := range 1 + rng.IntN(3) {
		j := drawJob(rng, p.TTL, false)
		if rng.IntN(2) == 0 {
			j.Every, j.Delay = p.Job.Every, p.Job.Delay
		}
		if rng.IntN(2) == 0 {
			j.TTL = p.TTL / time.Duration(1+rng.IntN(3))
		}
		if rng.IntN(4) == 0 {
			j.AtMost = max(j.AtLeast, 3*p.Margin, p.TTL/4+upTo(rng, p.TTL))
		}
		if rng.IntN(3) == 0 { // there are two replicas that run it
			j.Absent = rng.Uint64() &^ 3
		}
		j.Uneven = rng.IntN(6) == 0
		j.Name, j.Person = fmt.Sprint("tick", i+1), p.Job.Person
		p.More = append(p.More, j)
	}
	if rng.IntN(3) == 0 {
		p.Job.Absent = rng.Uint64() &^ 3
	}
}

// near is how far the clocks of replicas lie from the true one at most where runs of the dead are to be found by others: the client allows for two seconds
// between any two.
const near = 900 * time.Millisecond

// drawClocks makes the wall clocks of lives differ: by as much as is allowed, or one of them by minutes.
func (p *Plan) drawClocks(rng *rand.Rand) {
	p.Clocks, p.Job.Herd = make([]time.Duration, p.Replicas), false
	for i := range p.Clocks {
		p.Clocks[i] = (upTo(rng, 2*near) - near).Truncate(time.Millisecond)
	}
	p.driftLess(2*time.Second - 2*near)
	if rng.IntN(3) == 0 && p.Job.Delay == 0 { // with a delay the scheduled times of such a clock have no order with the others
		p.Clocks[rng.IntN(p.Replicas)] = (upTo(rng, 20*time.Minute) - 10*time.Minute).Truncate(time.Millisecond)
	}
}

// drift is by what part clocks differ at most.
func (p *Plan) drift() float64 {
	most := 0.0
	for _, d := range p.Drift {
		most = max(most, d, -d)
	}
	return most
}

// driftLess bounds by how much the clocks of replicas and the store drift apart in a history with jobs. How long ago a dead replica's run began is told by the store's
// clock. That this agrees with the wall clock by 2 s is a condition, and so much that the wall clocks differ is a part of it.
func (p *Plan) driftLess(most time.Duration) {
	if p.Work != Jobs && p.Work != Mixed {
		return
	}
	part := most.Seconds() / (p.Trouble + p.TTL).Seconds()
	for i, d := range p.Drift {
		p.Drift[i] = max(-part, min(part, d))
	}
}

// skew is by how much a wall clock is wrong at most, and whether that is as much as is allowed at most.
func (p *Plan) skew() (most time.Duration, allowed bool) {
	for _, d := range p.Clocks {
		most = max(most, d, -d)
	}
	return most, most <= near
}

type weighted[T any] []struct {
	value  T
	weight int
}

func draw[T any](rng *rand.Rand, all weighted[T]) T {
	sum := 0
	for _, one := range all {
		sum += one.weight
	}
	n := rng.IntN(sum)
	for _, one := range all {
		if n -= one.weight; n < 0 {
			return one.value
		}
	}
	panic("unreachable")
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d) + 1))
}

// drawFaults draws what the adversary does. Some histories have one kind of fault alone, some have none: a defect is easier to see
// where nothing else explains it.
func (p *Plan) drawFaults(rng *rand.Rand) {
	p.Drift = make([]float64, p.Replicas)
	margin := 0.1
	if p.Margin > 0 {
		margin = float64(p.Margin) / float64(p.TTL)
	}
	if rng.IntN(2) == 0 {
		for i := range p.Drift {
			p.Drift[i] = draw(rng, weighted[float64]{{-1, 1}, {1, 2}, {2*rng.Float64() - 1, 2}}) * 0.95 * margin
		}
	}
	some := func(n int) int {
		if rng.IntN(3) > 0 {
			return 0
		}
		return rng.IntN(n)
	}
	if rng.IntN(6) > 0 {
		p.Odds = Odds{Refuse: some(60), LoseRequest: some(80), LoseReply: some(120), Late: some(80), Repeat: some(100), Part: some(200), Slow: some(250), Fade: some(40)}
	}
	if rng.IntN(3) == 0 {
		for range 1 + rng.IntN(2) {
			p.Suspends = append(p.Suspends, Suspend{rng.IntN(p.Replicas), upTo(rng, p.Trouble), p.TTL/10 + upTo(rng, 2*p.TTL)})
		}
	}
	if rng.IntN(2) == 0 {
		for range 1 + rng.IntN(3) {
			from := upTo(rng, p.Trouble)
			p.Cuts = append(p.Cuts, Cut{rng.IntN(p.Replicas), from, from + p.TTL/4 + upTo(rng, 2*p.TTL), rng.IntN(2) == 0})
		}
	}
	if rng.IntN(6) == 0 { // the store is away for all
		from, length := upTo(rng, p.Trouble), p.TTL/2+upTo(rng, 4*p.TTL)
		for i := range p.Replicas {
			p.Cuts = append(p.Cuts, Cut{i, from, from + length, false})
		}
	}
	if rng.IntN(3) == 0 || p.Work == Jobs && rng.IntN(3) == 0 {
		for range 1 + rng.IntN(3) {
			p.Crashes = append(p.Crashes, Crash{rng.IntN(p.Replicas), 1 + rng.IntN(25), rng.IntN(2) == 0, upTo(rng, 2*p.TTL)})
		}
	}
	if rng.IntN(4) == 0 {
		p.Stops = append(p.Stops, Stop{rng.IntN(p.Replicas), upTo(rng, p.Trouble), upTo(rng, p.TTL)})
	}
	slices.SortFunc(p.Suspends, func(a, b Suspend) int { return int(a.At - b.At) })
	for i := range p.Cuts { // all is well in the tail
		p.Cuts[i].To = min(p.Cuts[i].To, p.Trouble)
	}
}

func drawJob(rng *rand.Rand, ttl time.Duration, cron bool) JobPlan {
	j := JobPlan{
		Missed: draw(rng, weighted[string]{{"skip", 1}, {"once", 1}, {"all", 2}}), Cap: 1 + rng.IntN(4), GiveUp: rng.IntN(3) == 0,
		Grace: draw(rng, weighted[time.Duration]{{ttl / 4, 2}, {2 * ttl, 2}, {time.Minute, 1}}),
		Fails: draw(rng, weighted[int]{{0, 3}, {15, 1}, {40, 1}}), Longest: draw(rng, weighted[time.Duration]{{ttl / 20, 3}, {ttl, 2}, {2 * ttl, 1}}),
	}
	if rng.IntN(3) == 0 {
		j.Attempts, j.Backoff = 1+rng.IntN(3), ttl/time.Duration(4+rng.IntN(20))
	}
	if cron {
		return j.overAChange(rng)
	}
	period := (ttl/2 + upTo(rng, 3*ttl)).Truncate(100 * time.Millisecond)
	switch rng.IntN(8) {
	case 0:
		j.Delay = period
	default:
		j.Every = period
	}
	if rng.IntN(5) == 0 {
		j.AtLeast = ttl/2 + upTo(rng, 2*ttl)
	}
	if rng.IntN(8) == 0 {
		j.Jitter = period / 4
	}
	j.Person = rng.IntN(6) == 0
	return j
}

// overAChange puts the job on a day on which the clocks of its zone are changed.
func (j JobPlan) overAChange(rng *rand.Rand) JobPlan {
	change := draw(rng, weighted[clockChange]{
		{clockChange{"Europe/Berlin", time.Date(2026, 3, 29, 0, 10, 0, 0, time.UTC), 80 * time.Minute}, 1},        // 2:00 is followed by 3:00
		{clockChange{"Europe/Berlin", time.Date(2026, 10, 24, 23, 40, 0, 0, time.UTC), 140 * time.Minute}, 1},     // 3:00 is followed by 2:00
		{clockChange{"Australia/Lord_Howe", time.Date(2026, 4, 4, 14, 10, 0, 0, time.UTC), 140 * time.Minute}, 1}, // 2:00 is followed by 1:30
		{clockChange{"Australia/Lord_Howe", time.Date(2026, 10, 3, 14, 40, 0, 0, time.UTC), 80 * time.Minute}, 1}, // 2:00 is followed by 2:30
	})
	j.Begin, j.Within = change.begin, change.within
	j.Expression = fmt.Sprintf("TZ=%s %d %d * * *", change.zone, 5*rng.IntN(12), 1+rng.IntN(2))
	j.Missed, j.Cap, j.Grace, j.Longest, j.Fails = "all", 100, 2*time.Minute, time.Second, 0
	if first := time.UnixMilli(j.next()(j.Begin.UnixMilli())); first.Before(j.Begin.Add(j.Within)) {
		j.Begin, j.Within = first.Add(-10*time.Minute).UTC(), min(j.Within, 80*time.Minute)
	}
	return j
}

// A clockChange is when the clocks of a zone are changed: within sees each time between 1:00 and 3:00 that comes after begin, as often as it comes. The second time is an hour after the
// first one at most.
type clockChange struct {
	zone   string
	begin  time.Time
	within time.Duration
}
