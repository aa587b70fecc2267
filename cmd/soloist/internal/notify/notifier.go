package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

const (
	// lookback is how old what happened can be to be told: so much is made up for after a time without a process, or by a slow receiver.
	lookback = time.Hour

	// retain is how long it is known which notices were sent.
	retain = 7 * 24 * time.Hour

	// lookEvery is how often the jobs are read, and a notice that the store could not record is tried again. It is longer if reading takes long,
	// so that it takes at most a tenth of the time.
	lookEvery = 10 * time.Second

	// backoff is the pause after the first attempt that failed; it doubles up to maxBackoff.
	backoff, maxBackoff = time.Second, time.Minute

	// maxQueue is how many notices of missed times wait for a target.
	maxQueue = 100

	// maxWaiting is how many of the others do. More are left to a later look, for as long as the records of the jobs have them.
	maxWaiting = 1000

	// prefix begins the names of the leader and the elements of a target.
	prefix = "soloist-notify-"
)

// Options configure New. Client and Logger are required.
type Options struct {
	Client    *soloist.Client // the notifier takes leases and reads jobs with it
	Namespace string          // that of the client, for the notices
	Logger    *slog.Logger
	Environ   []string // of commands
	Agent     string   // the User-Agent of webhooks
}

// A Notifier sends notices to its targets until it is closed.
type Notifier struct {
	targets []*target
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// A target is a Target at work.
type target struct {
	Target
	Options
	sender   sender
	log      *slog.Logger
	elements *soloist.Elements
	missed   chan Notice
	unread   string // what was told of records that cannot be read; used by lead alone

	mu      sync.Mutex
	waiting []Notice             // for the receiver and this process to lead; none has the ID of another one
	queued  map[string]bool      // their IDs
	settled map[string]time.Time // the IDs of notices that need no more, and when that was seen
}

// New starts a notifier. It reads the files of the targets; an error names the target, and shows no secret.
func New(targets []Target, opts Options) (*Notifier, error) {
	return begin(targets, opts, func(t Target) (sender, error) { return t.sender(opts) })
}

// begin is New with what sends to the targets.
func begin(targets []Target, opts Options, senderOf func(Target) (sender, error)) (*Notifier, error) {
	n := &Notifier{}
	for _, t := range targets {
		s, err := senderOf(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		n.targets = append(n.targets, &target{
			Target: t, Options: opts, sender: s, log: opts.Logger.With("target", t.Name), missed: make(chan Notice, maxQueue), queued: map[string]bool{}, settled: map[string]time.Time{},
			elements: opts.Client.Elements(prefix+t.Name, soloist.ElementsOptions{Retain: retain, Retry: soloist.Retry{Attempts: 2}}),
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	for _, t := range n.targets {
		n.ended.Go(func() { t.lead(ctx) })
		n.ended.Go(func() { t.sendMissed(ctx) })
	}
	return n, nil
}

// Close ends the notifier and waits for it. What was not sent is told by another process, or the next one; but of missed times it is dropped.
func (n *Notifier) Close() {
	n.stop()
	n.ended.Wait()
}

// Observe notes that scheduled times were missed, of which the records of jobs do not tell. It is for Config.Observe and does not block.
func (n *Notifier) Observe(_ context.Context, e soloist.Event) {
	if e.Kind != soloist.EventMissed {
		return
	}
	for _, t := range n.targets {
		if !slices.Contains(t.On, Missed) {
			continue
		}
		select {
		case t.missed <- missed(e.Subject.Name, e.Missed, time.Now(), t.Every):
		default:
			t.log.Error("a notice is dropped: too many wait for a receiver that is slow", "kind", Missed, "job", e.Subject.Name)
		}
	}
}

// sender returns what sends to a target.
func (t Target) sender(opts Options) (sender, error) {
	if len(t.Command) > 0 {
		return &command{args: t.Command, environ: opts.Environ}, nil
	}
	text := t.URL
	if t.URLFile != "" {
		data, err := readSecret(t.URLFile)
		if err != nil {
			return nil, fmt.Errorf("url-file: %w", err)
		}
		text = string(data)
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	w := &webhook{url: u, agent: opts.Agent}
	if t.SecretFile != "" {
		if w.key, err = readSecret(t.SecretFile); err != nil {
			return nil, fmt.Errorf("secret-file: %w", err)
		}
	}
	return w, nil
}

// readSecret returns the content of a file without the white space around it.
func readSecret(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is empty")}
	}
	return data, nil
}

// lead looks at the jobs while this process leads the target. The receiver can be slow, and the records of jobs forget: one goroutine reads them, and
// another one sends. What waits is kept while another process leads, which may never have seen it. The store has a record of what that one sends.
func (t *target) lead(ctx context.Context) {
	err := t.Client.Lead(ctx, prefix+t.Name, func(ctx context.Context, _ *soloist.Lease) error {
		looked := make(chan struct{}, 1)
		var sending sync.WaitGroup
		sending.Go(func() { t.send(ctx, looked) })
		defer sending.Wait()
		for {
			begin := time.Now()
			due, whole := t.look(ctx, begin)
			t.queue(due, whole)
			select {
			case looked <- struct{}{}:
			default: // it sends still, and begins anew after that
			}
			if !sleep(ctx, max(lookEvery, 10*time.Since(begin))) {
				return nil
			}
		}
	})
	if err != nil {
		t.log.Error("no notices are sent any more", "err", err)
	}
	if left := len(t.waiting); left > 0 {
		t.log.Warn("notices are not sent: the process ends. Another one sends what the records of the jobs still have", "notices", left)
	}
}

// queue adds the notices that are new to those that wait for the receiver. If due is complete, it removes the notices of jobs that are no longer overdue.
func (t *target) queue(due []Notice, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if whole {
		t.waiting = slices.DeleteFunc(t.waiting, func(n Notice) bool {
			past := n.Kind == Overdue && !slices.ContainsFunc(due, func(d Notice) bool { return d.ID == n.ID })
			if past {
				delete(t.queued, n.ID)
			}
			return past
		})
	}
	for _, n := range due {
		if _, settled := t.settled[n.ID]; !settled && !t.queued[n.ID] && len(t.waiting) < maxWaiting {
			t.waiting, t.queued[n.ID] = append(t.waiting, n), true
		}
	}
}

// send sends what waits after each look, until ctx ends. What the store cannot record goes on to wait.
func (t *target) send(ctx context.Context, looked <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-looked:
		}
		t.mu.Lock()
		waiting := slices.Clone(t.waiting)
		t.mu.Unlock()
		for _, n := range waiting {
			if ctx.Err() != nil {
				return
			}
			if !t.waits(n) { // it was true when it began to wait
				continue
			}
			late := time.Since(n.At) > lookback
			if late && t.drop(ctx, n) || !late && t.deliver(ctx, n) {
				t.unqueue(n, !late)
			}
		}
	}
}

func (t *target) waits(n Notice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queued[n.ID]
}

// unqueue ends the wait of a notice. One that is settled is not told again; another may be, as of a job that is still overdue.
func (t *target) unqueue(n Notice, settled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(other Notice) bool { return other.ID == n.ID })
	delete(t.queued, n.ID)
	if settled {
		t.settled[n.ID] = time.Now()
	}
}

// drop logs that a notice is not sent, unless another process has settled that, or is doing so, or the notice is so old that the store may have forgotten that. It
// reports whether ctx had not ended.
func (t *target) drop(ctx context.Context, n Notice) bool {
	element, err := t.elements.Claim(ctx, n.ID)
	if err == nil {
		err = element.Release()
	}
	if ctx.Err() != nil {
		return false
	}
	if time.Since(n.At) < retain && !errors.Is(err, soloist.ErrDone) && !errors.Is(err, soloist.ErrFailed) && !errors.Is(err, soloist.ErrHeld) {
		t.tooLate(n)
	}
	return true
}

func (t *target) tooLate(n Notice) {
	t.log.Error("a notice is dropped: it could not be sent in time", "kind", n.Kind, "job", n.Job)
}

// sleep waits for d, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look returns what is to be said of the jobs as they are now, and whether these are all jobs that can be read. Of records that cannot be it tells once: they
// stay so until somebody mends them.
func (t *target) look(ctx context.Context, now time.Time) (due []Notice, whole bool) {
	t.mu.Lock()
	maps.DeleteFunc(t.settled, func(_ string, at time.Time) bool { return now.Sub(at) > retain })
	t.mu.Unlock()
	unread := ""
	for j, err := range t.Client.Admin().Jobs(ctx) {
		switch {
		case soloist.OnlyUnreadable(err): // it is the last one
			if unread = err.Error(); unread != t.unread {
				t.log.Warn("there are records that cannot be read, so notices of their jobs may be missing or wrong", "err", err)
			}
			continue
		case err != nil:
			if ctx.Err() == nil { // or the process ends, and another one reads them
				t.log.Warn("the jobs cannot be read, so some notices come later", "err", err)
			}
			return due, false
		}
		for _, n := range noticesOf(j, now.Add(-lookback), now, t.Every) {
			if slices.Contains(t.On, n.Kind) {
				due = append(due, n)
			}
		}
	}
	t.unread = unread
	return due, true
}

// sendMissed sends the notices of missed times. No record has them, so each is tried until that is settled, or for as long as what is told of
// records.
func (t *target) sendMissed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			if left := len(t.missed); left > 0 {
				t.log.Error("notices are dropped: the process ends", "kind", Missed, "notices", left)
			}
			return
		case n := <-t.missed:
			settled := t.deliver(ctx, n)
			for !settled && time.Since(n.At) < lookback && sleep(ctx, lookEvery) {
				settled = t.deliver(ctx, n)
			}
			if !settled {
				t.tooLate(n)
			}
		}
	}
}

// deliver sends a notice unless that was done, and reports whether nothing more is to be done for it.
func (t *target) deliver(ctx context.Context, n Notice) bool {
	if n.Namespace = t.Namespace; !t.Output {
		n.Output = ""
	}
	err := t.elements.Process(ctx, n.ID, func(ctx context.Context, _ *soloist.Element) error { return t.try(ctx, n) })
	var failed undelivered
	switch {
	case err == nil, errors.Is(err, soloist.ErrDone), errors.Is(err, soloist.ErrFailed):
		return true
	case errors.As(err, &failed):
		t.log.Error("a notice could not be delivered", "kind", n.Kind, "job", n.Job, "err", failed.error)
		return true
	case !errors.Is(err, soloist.ErrHeld) && ctx.Err() == nil:
		t.log.Warn("a notice is sent later: the store cannot record it", "kind", n.Kind, "job", n.Job, "err", err)
	}
	return false
}

// An undelivered is why a notice was given up.
type undelivered struct{ error }

// try sends a notice, with as many attempts as the target has. Its error is an undelivered, unless ctx has ended.
func (t *target) try(ctx context.Context, n Notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return undelivered{err}
	}
	pause := backoff
	for attempt := 1; ; attempt++ {
		err = t.once(ctx, n, body)
		var hopeless permanent
		switch {
		case err == nil:
			t.log.Info("notice sent", "kind", n.Kind, "job", n.Job, "attempts", attempt)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case attempt == t.Attempts, errors.As(err, &hopeless):
			return undelivered{err}
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, maxBackoff)
	}
}

// once makes one attempt, within the time-out.
func (t *target) once(ctx context.Context, n Notice, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return t.sender.send(ctx, n, body)
}
