package soloist

import (
	"cmp"
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

// ErrNoJob reports that no replica ever registered a job of that name on this store and namespace.
var ErrNoJob = errors.New("no such job")

// A Pause describes why a job does not run.
type Pause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`            // replica
	At     time.Time `json:"at"`            // by its clock
	All    bool      `json:"all,omitempty"` // by PauseAll, so that ResumeAll ends it
}

// control is the state of the record with the commands to a job. It is not part of the job's record because only the
// replica that runs the job may write that.
type control struct {
	Paused  *Pause    `json:"paused,omitempty"`
	Resumed int64     `json:"resumed,omitempty"` // unix ms: scheduled times up to then were dropped by a pause
	Trigger int64     `json:"trigger,omitempty"` // counts the manual runs that were requested
	At      time.Time `json:"at,omitzero"`       // when the last one was
	By      string    `json:"by,omitempty"`      // the replica that requested it
}

// controlOf decodes a control at now. It cannot have been written after its record was last claimed: a later instant
// comes from a wrong clock, and must not prevent the job from running.
func controlOf(r store.Record, now time.Time) (control, error) {
	c, err := parseControl(r.State)
	if written := now.Add(skew - r.Age).UnixMilli(); c.Resumed > written {
		c.Resumed = written
	}
	return c, err
}

// json returns the control as its record stores it: empty if there is no command.
func (c control) json() []byte {
	if c == (control{}) {
		return []byte{}
	}
	b, _ := json.Marshal(c) // of strings, numbers and times of four-digit years; it cannot fail
	return b
}

var errControl = errors.New("the job's control is not soloist's")

func parseControl(b []byte) (control, error) {
	var c control
	if len(b) == 0 {
		return c, nil
	}
	err := json.Unmarshal(b, &c)
	if err == nil {
		err = errors.Join(counted("resumed", c.Resumed), counted("trigger", c.Trigger))
	}
	if err != nil {
		return control{}, fmt.Errorf("%w: %w", errControl, err)
	}
	return c, nil
}

// Pause stops a job on every replica: no scheduled time that is due after Pause returns is run. A run under way
// continues. When the job is resumed, no scheduled time until then is run any more, whatever Job.Missed is: also one that
// was due before the pause and had not been begun, or had been interrupted. Trigger still works.
func (a *Admin) Pause(ctx context.Context, job, reason string) error {
	return a.control(ctx, Action{Verb: ActionPause, Name: job, Reason: reason}, func(ctl *control, _ store.Record) {
		ctl.Paused = &Pause{Reason: shorten(reason), By: a.by, At: time.Now()}
	})
}

// Resume ends a pause: scheduled times that are due after Resume returns are run again, on every replica, and none from before (see Pause). The error is
// ErrAllPaused while PauseAll is in effect; nothing is changed then.
func (a *Admin) Resume(ctx context.Context, job string) error {
	if err := a.client.notAllPaused(ctx); err != nil {
		return fmt.Errorf("%s of job %q: %w", ActionResume, job, err)
	}
	return a.control(ctx, Action{Verb: ActionResume, Name: job}, func(ctl *control, _ store.Record) { resume(ctl) })
}

func resume(ctl *control) {
	if ctl.Paused != nil {
		ctl.Paused, ctl.Resumed = nil, time.Now().UnixMilli()
	}
}

// Trigger requests one run now, in addition to the schedule, on any replica. While the job is running, the manual run
// waits for its end. Another Trigger before the manual run has begun has no further effect. The error is ErrNoReplica
// if no live replica has the job: no run is requested then.
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
		running := r.Holder != "" && !r.Free() // the manual run that was requested may be the one that has begun
		if ctl.Trigger <= state.Trigger || running {
			ctl.Trigger = max(ctl.Trigger, state.Trigger, -state.Pending) + 1 // the control may have been removed since the runs before
		}
		ctl.At, ctl.By, number = time.Now(), a.by, ctl.Trigger
	})
	return number, err
}

// TriggerAndWait calls Trigger, waits until the run has ended, and returns the record of its last attempt from the
// job's history. If ctx ends first, or the client is closed, the run continues. If the job is forgotten before the run has begun,
// there will be none, and the error is ErrNoJob; it is another one if the job was registered anew by then.
func (a *Admin) TriggerAndWait(ctx context.Context, job string) (RunRecord, error) {
	number, err := a.trigger(ctx, job)
	if err != nil {
		return RunRecord{}, err
	}
	names := []string{a.client.names.prefix + kindJob + job, a.client.names.prefix + kindControl + job}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wake, _ := a.client.watch(watching, target{name: names[0]})
	pace := pacer{}
	for poll := newBackoff(time.Second); ; {
		begun := time.Now()
		records, err := a.client.peek(ctx, names)
		switch {
		case errors.Is(err, store.ErrClosed):
			return RunRecord{}, fmt.Errorf("waiting for the manual run of job %q: %w", job, err)
		case err == nil:
			state, err := parseJobState(records[0].State)
			if err != nil {
				return RunRecord{}, fmt.Errorf("waiting for the manual run of job %q: %w", job, err)
			}
			ctl, unreadable := parseControl(records[1].State)
			switch {
			case state.Trigger >= number:
				return servedBy(job, number, state.Runs)
			case forgotten(records[0]):
				return RunRecord{}, fmt.Errorf("the manual run of job %q was not begun before the job was forgotten: %w", job, ErrNoJob)
			case records[0].Free() && unreadable == nil && max(ctl.Trigger, -state.Pending) < number: // who has the record may be running it, or forgetting the job
				return RunRecord{}, fmt.Errorf("the manual run of job %q was not begun, and nothing asks for it any more: the job was forgotten and registered anew, or the record of the request was removed", job)
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
		case <-a.client.ctx.Done():
		}
		timer.Stop()
		pace.took(ctx, time.Since(begun))
		err = a.client.usable()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return RunRecord{}, fmt.Errorf("the manual run of job %q is not over: %w", job, err)
		}
	}
}

// servedBy returns the last attempt of the manual run that served a request. A request that came before another one's run had begun was served by that run.
func servedBy(job string, number int64, runs []RunRecord) (RunRecord, error) {
	i := slices.IndexFunc(runs, func(r RunRecord) bool { return r.Manual && r.Request >= number })
	earlier := func(r RunRecord) bool { return r.Manual && r.Request < number }
	if i < 0 || runs[i].Request > number && len(runs) >= historyLength && !slices.ContainsFunc(runs, earlier) { // its own run may be among those that are not kept
		return RunRecord{}, fmt.Errorf("the manual run of job %q is over, and its history does not show it any more", job)
	}
	last := runs[i]
	for _, r := range runs[i:] {
		if r.Request == last.Request {
			last = r
		}
	}
	return last, nil
}

// controlTTL is the TTL of the leases under which commands and the record of changes are written.
const controlTTL = 10 * time.Second

// patient returns a client for changes of the records of jobs and elements themselves. It waits for what is overdue as long as
// the client of a does.
func (a *Admin) patient() *Client {
	return a.client.plain(Options{TTL: controlTTL, Overdue: cmp.Or(a.client.opts.Overdue, -1)})
}

// control changes the commands to a job under the lock of their record, notifies the replicas, and logs the action.
// change is passed the job's record.
func (a *Admin) control(ctx context.Context, action Action, change func(*control, store.Record)) error {
	action.Kind = KindJob
	err := a.client.plain(Options{TTL: controlTTL}).changeOf(ctx, action.Name, change)
	if err = a.note(ctx, action, err); err != nil {
		return fmt.Errorf("%s of job %q: %w", action.Verb, action.Name, err)
	}
	return nil
}

// changeOf changes the commands to one job. change is passed the job's record.
func (c *Client) changeOf(ctx context.Context, job string, change func(*control, store.Record)) error {
	name, err := c.names.name(kindJob, job)
	if err != nil {
		return err
	}
	controlName, err := c.names.name(kindControl, job)
	if err != nil {
		return err
	}
	return c.change(ctx, target{shown: job, name: controlName}, func(ctl *control) error {
		records, err := c.peek(ctx, []string{name})
		if err != nil {
			return err
		}
		if records[0].Token == 0 || forgotten(records[0]) {
			return ErrNoJob
		}
		change(ctl, records[0])
		return nil
	})
}

// change changes the commands in a control record under its lock, and notifies the replicas.
func (c *Client) change(ctx context.Context, t target, change func(*control) error) error {
	l, err := c.wait(ctx, t)
	if err != nil {
		return err
	}
	l.busy.Store(true) // Close is not to release it, nor what announce locks, before the change is written
	ctl, err := parseControl(l.granted.State)
	if err == nil {
		err = change(&ctl)
	}
	var news *Lease
	if err == nil {
		news, err = c.announce(ctx)
	}
	if err != nil {
		return errors.Join(err, l.giveBack())
	}
	state := ctl.json()
	err = released(l.release(store.Release{State: state, Retain: c.retainFor(t.name, 0, state)}))
	told := c.announced(ctx, news)
	if err == nil && told != nil {
		told = halfDone{store.AsUnknown(fmt.Errorf("it was done, but replicas may not know that yet: %w", told))}
	}
	return errors.Join(err, told)
}

// announced releases the lease that announce returned, after controls have been written.
func (c *Client) announced(ctx context.Context, news *Lease) error {
	told := news.release(store.Release{Retain: Forever})
	if gone(told) { // a replica may have read all controls before this one was written
		if news, told = c.announce(ctx); told == nil {
			told = news.release(store.Release{Retain: Forever})
		}
	}
	return told
}

// announce locks the record that every replica watches, before a control is written. While it is locked, replicas do
// not trust the controls that they have read, and after that they read them again.
func (c *Client) announce(ctx context.Context) (*Lease, error) {
	l, err := c.wait(ctx, target{shown: nameControls, name: c.names.prefix + nameControls})
	if err == nil {
		l.busy.Store(true)
	}
	return l, err
}

// unsettled is the version of the controls while somebody changes them, or before the first look. No replica has
// controls of this version.
const unsettled = -1

// controlsVersion returns the version of the controls. Controls that were read at a version are complete for as long as
// the record has that version.
func controlsVersion(r store.Record) int64 {
	if r.Holder != "" && !r.Free() {
		return unsettled
	}
	return r.Token
}

// A controlNews has the commands to jobs, and which jobs wait to be taken over.
type controlNews struct {
	each    map[string]control // by the jobs' names; nil before the first look
	all     control            // to all jobs
	version int64
	left    left
}

// controlsPoll is the shortest time between two reads of the commands where the store cannot notify. A claim of due
// jobs reads them too, so this only delays a manual run.
const controlsPoll = 2 * time.Second

// controls watches the commands to jobs and sends all of them whenever they have changed, until ctx ends.
func (c *Client) controls(ctx context.Context, send chan<- controlNews) {
	for f := (followed{version: unsettled}); ctx.Err() == nil; sleep(ctx, controlsPoll+rand.N(controlsPoll)) {
		c.follow(ctx, &f, send)
	}
}

// A followed is what was last seen of the controls.
type followed struct {
	version int64
	unread  string // what could not be read: it is read at each look, since nobody announces that it was mended
}

// follow looks for changes since what was seen last. Then it looks again at each notification until the subscription is
// lost; if the store cannot notify, it looks once.
func (c *Client) follow(ctx context.Context, seen *followed, send chan<- controlNews) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	name := c.names.prefix + nameControls
	wake, _ := c.watch(ctx, target{name: name})
	for pace := (pacer{}); ; {
		begun := time.Now()
		if records, err := c.peek(ctx, []string{name}); err == nil {
			if version := controlsVersion(records[0]); version != seen.version || version == unsettled || seen.unread != "" {
				var bad faults
				each, all, err := c.controlsOf(ctx, part{}, &bad)
				trusted := version
				if OnlyUnreadable(err) || all == unreadable { // each claim reads what was asked of its job
					trusted = unsettled
				}
				if OnlyUnreadable(err) {
					bad.add(err)
					err = c.controlsUnlisted(ctx, part{}, each)
				}
				if err == nil {
					unread := ""
					if err := bad.err(); err != nil {
						if unread = err.Error(); unread != seen.unread {
							c.log.Error("what was asked of jobs cannot be read; they do not run", "err", err)
						}
					}
					*seen = followed{version, unread}
					select {
					case send <- controlNews{each, all, trusted, parseLeft(records[0].State)}:
					case <-ctx.Done():
					}
				}
			}
		}
		if wake == nil {
			return
		}
		timer := time.NewTimer(15 * time.Second) // in case a notification got lost
		select {
		case _, open := <-wake:
			if !open {
				wake = nil
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if pace.took(ctx, time.Since(begun)); ctx.Err() != nil {
			return
		}
	}
}

// unreadable is the control of jobs whose commands cannot be read: they may be paused, so nobody may run them.
var unreadable = control{Paused: &Pause{Reason: "what was asked of it cannot be read"}}

// controlsOf reads the commands to the jobs whose names are in a part, and those to all jobs. Jobs whose commands, or
// whose commands to all, cannot be read count as paused, and the reason is added to bad. The error is that of the store,
// unless it is about the record with the commands to all alone; if OnlyUnreadable is true for it, each lacks what the
// store could not list.
func (c *Client) controlsOf(ctx context.Context, p part, bad *faults) (each map[string]control, all control, err error) {
	each = map[string]control{}
	prefix := c.names.prefix + kindControl
	var unlisted error
	for r, err := range c.listPart(ctx, prefix, p) {
		if err != nil {
			unlisted = fmt.Errorf("listing what was asked of jobs: %w", err)
			break
		}
		name := strings.TrimPrefix(r.Name, prefix)
		ctl, err := controlOf(r, time.Now())
		if err != nil {
			bad.add(unreadableRecord(fmt.Errorf("job %q: %w", name, err)))
			ctl = unreadable
		}
		each[name] = ctl
	}
	if unlisted != nil && !OnlyUnreadable(unlisted) {
		return each, unreadable, unlisted
	}
	records, errs, err := c.peekEach(ctx, []string{c.names.prefix + nameControls, c.names.prefix + nameControlOfAll})
	if err != nil {
		return each, unreadable, fmt.Errorf("reading what was asked of all jobs: %w", err)
	}
	if all, err = controlRead(records[1], errs[1]); err != nil {
		if err = fmt.Errorf("what was asked of all jobs: %w", err); errs[1] == nil {
			err = unreadableRecord(err)
		}
		bad.add(err)
		all = unreadable
	}
	return each, all, unlisted
}

// controlsUnlisted adds to each the commands to those jobs of a part which are not in it, because the store could not
// list them. They are read by their names, which shows of which job they cannot be.
func (c *Client) controlsUnlisted(ctx context.Context, p part, each map[string]control) error {
	prefix := c.names.prefix + kindJob
	var jobs, names []string
	for r, err := range c.listPart(ctx, prefix, p) {
		if err != nil && !OnlyUnreadable(err) {
			return err
		}
		job := strings.TrimPrefix(r.Name, prefix)
		if _, listed := each[job]; err == nil && !listed {
			jobs, names = append(jobs, job), append(names, c.names.prefix+kindControl+job)
		}
	}
	records, errs, err := c.peekEach(ctx, append(names, c.names.prefix+nameControlOfAll))
	if err != nil {
		return err
	}
	for i, job := range jobs {
		if each[job], err = controlRead(records[i], errs[i]); err != nil {
			each[job] = unreadable
		}
	}
	return nil
}
