package soloist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// ErrNoJob says that no replica has ever run a job of that name on this store and namespace.
var ErrNoJob = errors.New("no such job")

// A Pause says why a job does not run.
type Pause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`            // replica
	At     time.Time `json:"at"`            // by its clock
	All    bool      `json:"all,omitempty"` // by PauseAll
}

// control is the state of the record that says what was asked of a job. It is apart from the job's own record because that
// one belongs to whoever runs the job.
type control struct {
	Paused  *Pause    `json:"paused,omitempty"`
	Resumed int64     `json:"resumed,omitempty"` // unix ms: scheduled times up to then fell into a pause
	Trigger int64     `json:"trigger,omitempty"` // counts the manual runs that were asked for
	At      time.Time `json:"at,omitzero"`       // when the last one was
	By      string    `json:"by,omitempty"`      // by whom
}

// controlOf reads a control at now. It cannot have been written after its record was last taken: a later instant is that of a clock which is
// wrong, and must not keep the job from running.
func controlOf(r store.Record, now time.Time) (control, error) {
	c, err := parseControl(r.State)
	if written := now.Add(skew - r.Age).UnixMilli(); c.Resumed > written {
		c.Resumed = written
	}
	return c, err
}

// json is the control as its record keeps it: empty if nothing is asked of the job.
func (c control) json() []byte {
	if c == (control{}) {
		return []byte{}
	}
	b, _ := json.Marshal(c) // of strings, numbers and times of four-digit years; it cannot fail
	return b
}

func parseControl(b []byte) (control, error) {
	var c control
	if len(b) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("the job's control is not soloist's: %w", err)
	}
	return c, nil
}

// Pause keeps a job from running on every replica, for every scheduled time due after it returns; a run under way goes on.
// Scheduled times during the pause are dropped, whatever Job.Missed says. Trigger works all the same.
func (a *Admin) Pause(ctx context.Context, job, reason string) error {
	return a.control(ctx, Action{Verb: ActionPause, Name: job, Reason: reason}, func(ctl *control, _ store.Record) {
		ctl.Paused = &Pause{Reason: shorten(reason), By: a.client.cfg.Replica, At: time.Now()}
	})
}

// Resume ends a pause, on every replica, for every scheduled time due after it returns.
func (a *Admin) Resume(ctx context.Context, job string) error {
	return a.control(ctx, Action{Verb: ActionResume, Name: job}, func(ctl *control, _ store.Record) {
		if ctl.Paused != nil {
			ctl.Paused, ctl.Resumed = nil, time.Now().UnixMilli()
		}
	})
}

// Trigger asks for one run now, beside the schedule, on whichever replica is first. While the job is running the manual run
// waits for its end. Asking again before it has begun has no further effect. The error is ErrNoReplica if no replica that is alive has the job: nothing is
// asked for then.
func (a *Admin) Trigger(ctx context.Context, job string) error {
	_, err := a.trigger(ctx, job)
	return err
}

// trigger returns the number of the manual run.
func (a *Admin) trigger(ctx context.Context, job string) (number int64, err error) {
	if err := a.client.used(ctx, job); err != nil {
		if _, none := a.Job(ctx, job); errors.Is(none, ErrNoJob) {
			err = ErrNoJob
		}
		return 0, fmt.Errorf("trigger of job %q: %w", job, err)
	}
	err = a.control(ctx, Action{Verb: ActionTrigger, Name: job}, func(ctl *control, r store.Record) {
		state, _ := parseJobState(r.State)
		running := r.Holder != "" && !r.Free() // a manual run that was asked for may be the one that has begun
		if ctl.Trigger <= state.Trigger || running {
			ctl.Trigger++
		}
		ctl.At, ctl.By, number = time.Now(), a.client.cfg.Replica, ctl.Trigger
	})
	return number, err
}

// TriggerAndWait is Trigger, waits until the run is over, and returns what the job's history has of it: of its last attempt. When ctx ends first, the
// run goes on.
func (a *Admin) TriggerAndWait(ctx context.Context, job string) (RunRecord, error) {
	number, err := a.trigger(ctx, job)
	if err != nil {
		return RunRecord{}, err
	}
	name := a.client.names.prefix + kindJob + job
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wake, _ := a.client.watch(watching, target{name: name})
	for poll := newBackoff(time.Second); ; {
		records, err := a.client.peek(ctx, []string{name})
		if err == nil {
			state, err := parseJobState(records[0].State)
			if err != nil {
				return RunRecord{}, fmt.Errorf("waiting for the manual run of job %q: %w", job, err)
			}
			if state.Trigger >= number {
				return lastManual(job, state.Runs)
			}
		}
		timer := time.NewTimer(poll.pause())
		select {
		case _, open := <-wake:
			if !open {
				wake = nil
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return RunRecord{}, fmt.Errorf("the manual run of job %q is not over: %w", job, context.Cause(ctx))
		}
	}
}

// lastManual returns the last manual run of a history.
func lastManual(job string, runs []RunRecord) (RunRecord, error) {
	for _, run := range slices.Backward(runs) {
		if run.Manual {
			return run, nil
		}
	}
	return RunRecord{}, fmt.Errorf("the manual run of job %q is over, and its history does not show it any more", job)
}

// controlTTL is for how long a control and the record that tells of changes are taken by somebody who dies.
const controlTTL = 10 * time.Second

// control changes what is asked of a job, under a lock of its own, tells the replicas, and notes that. The change is shown the job's record.
func (a *Admin) control(ctx context.Context, action Action, change func(*control, store.Record)) error {
	action.Kind = KindJob
	err := a.client.plain(Options{TTL: controlTTL}).change(ctx, action.Name, change)
	if err == nil {
		err = a.note(ctx, action)
	}
	if err != nil {
		return fmt.Errorf("%s of job %q: %w", action.Verb, action.Name, err)
	}
	return nil
}

func (c *Client) change(ctx context.Context, job string, change func(*control, store.Record)) error {
	name, err := c.names.name(kindJob, job)
	if err != nil {
		return err
	}
	controlName, err := c.names.name(kindControl, job)
	if err != nil {
		return err
	}
	l, err := c.wait(ctx, target{shown: job, name: controlName})
	if err != nil {
		return err
	}
	state, err := c.changed(ctx, l, name, change)
	var news *Lease
	if err == nil {
		news, err = c.announce(ctx)
	}
	if err != nil {
		return errors.Join(err, l.Release())
	}
	err = l.release(store.Release{State: state, Retain: retainFor(0, state)})
	return errors.Join(err, c.announced(ctx, news))
}

// announced gives back what announce has returned, after controls have been written.
func (c *Client) announced(ctx context.Context, news *Lease) error {
	told := news.release(store.Release{Retain: Forever})
	if errors.Is(told, ErrLost) { // a replica may have read all controls before this one was written
		if news, told = c.announce(ctx); told == nil {
			told = news.release(store.Release{Retain: Forever})
		}
	}
	return told
}

// changed answers the new state of a control record that is held by l.
func (c *Client) changed(ctx context.Context, l *Lease, job string, change func(*control, store.Record)) ([]byte, error) {
	records, err := c.peek(ctx, []string{job})
	if err != nil {
		return nil, err
	}
	if records[0].Token == 0 || forgotten(records[0]) {
		return nil, ErrNoJob
	}
	ctl, err := parseControl(l.granted.State)
	if err != nil {
		return nil, err
	}
	change(&ctl, records[0])
	return ctl.json(), nil
}

// announce takes the record that every replica watches, before a control is written. Until it is given back replicas do not
// believe what they know of controls, and after that they read them again.
func (c *Client) announce(ctx context.Context) (*Lease, error) {
	return c.wait(ctx, target{shown: nameControls, name: c.names.prefix + nameControls})
}

// unsettled is the version of controls while somebody changes them, or when nobody has looked. No replica knows controls of it.
const unsettled = -1

// controlsVersion tells whether controls have changed: what was read when the record had a version is all there is for as long as it
// has that.
func controlsVersion(r store.Record) int64 {
	if r.Holder != "" && !r.Free() {
		return unsettled
	}
	return r.Token
}

// A controlNews is what is asked of all jobs, and which of them wait to be taken over.
type controlNews struct {
	all     map[string]control // by the jobs' names
	version int64
	left    left
}

// controlsPoll is the shortest time between two looks at what is asked of jobs, where the store does not tell of changes. A tick looks
// too, so that this only delays a manual run.
const controlsPoll = 2 * time.Second

// controls watches what is asked of jobs and sends all of it whenever it has changed, until ctx ends.
func (c *Client) controls(ctx context.Context, send chan<- controlNews) {
	for seen := int64(unsettled); ctx.Err() == nil; sleep(ctx, controlsPoll+rand.N(controlsPoll)) {
		seen = c.follow(ctx, seen, send)
	}
}

// follow looks for changes since the version that was seen, then at each wake-up until the subscription is lost, or once if the
// store has none. It answers the version that it saw last.
func (c *Client) follow(ctx context.Context, seen int64, send chan<- controlNews) int64 {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	name := c.names.prefix + nameControls
	wake, _ := c.watch(ctx, target{name: name})
	for {
		if records, err := c.peek(ctx, []string{name}); err == nil {
			if version := controlsVersion(records[0]); version != seen || version == unsettled {
				var bad faults
				if all, err := c.allControls(ctx, "", &bad); err == nil {
					if err := bad.err(); err != nil {
						c.log.Error("what was asked of jobs cannot be read; they do not run", "err", err)
					}
					seen = version
					select {
					case send <- controlNews{all, version, parseLeft(records[0].State)}:
					case <-ctx.Done():
					}
				}
			}
		}
		if wake == nil {
			return seen
		}
		timer := time.NewTimer(15 * time.Second) // against wake-ups that got lost
		select {
		case _, open := <-wake:
			if !open {
				wake = nil
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// allControls reads what is asked of the jobs whose names begin with start. A job of which it cannot be read counts as paused, and the reason goes
// to bad. The error is that of the list, which has all others.
func (c *Client) allControls(ctx context.Context, start string, bad *faults) (map[string]control, error) {
	all := map[string]control{}
	prefix := c.names.prefix + kindControl
	for r, err := range c.list(ctx, prefix+start) {
		if err != nil {
			return all, fmt.Errorf("listing what was asked of jobs: %w", err)
		}
		name := strings.TrimPrefix(r.Name, prefix)
		ctl, err := controlOf(r, time.Now())
		if err != nil {
			bad.add(fmt.Errorf("job %q: %w", name, err))
			ctl = control{Paused: &Pause{Reason: "what was asked of it cannot be read"}} // it may be paused, so nobody may run it
		}
		all[name] = ctl
	}
	return all, nil
}
