package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
)

// A link is a connection to NATS.
type link struct {
	nc     *nats.Conn
	prefix string // of the subjects of the API of JetStream, and of records in another domain; with its dot
	puts   string // what stands before the subject of a record

	mu     sync.Mutex
	broken context.Context // ends when the connection is lost
	lost   context.CancelCauseFunc
	ended  bool
	done   chan struct{} // closed when the link is not used any more
}

var errDisconnected = errors.New("the connection was lost")

func newLink(js jetstream.JetStream) *link {
	l := &link{nc: js.Conn(), prefix: jetstream.DefaultAPIPrefix, done: make(chan struct{})}
	switch o := js.Options(); {
	case o.Domain != "":
		l.prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		l.prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	if l.prefix != jetstream.DefaultAPIPrefix {
		l.puts = l.prefix
	}
	l.broken, l.lost = context.WithCancelCause(context.Background())
	changes := l.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		defer l.nc.RemoveStatusListener(changes)
		for {
			select {
			case <-changes:
				l.disconnected()
			case <-l.done:
				return
			}
		}
	}()
	return l
}

// disconnected ends what waits for replies: none will come.
func (l *link) disconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost(errDisconnected)
	if !l.ended {
		l.broken, l.lost = context.WithCancelCause(context.Background())
	}
}

// life returns a context that ends when the connection is lost.
func (l *link) life() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// end ends what waits for replies, and the watches.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.lost(store.ErrClosed)
	close(l.done)
}

// look is how often a request that waits looks at whether the server has denied it, which it reports apart from
// replies.
const look = 20 * time.Millisecond

// A deniedError reports that this user may not make a request, or may not receive replies.
type deniedError struct {
	err  error
	sent bool // the request may have been carried out
}

func (e *deniedError) Error() string { return e.err.Error() }

// request sends a message and returns the reply. The error is a *deniedError if a right is missing: to send it, or to
// receive replies.
func (l *link) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if l.nc.IsClosed() {
		return nil, errNotConnected
	}
	before := l.nc.LastError()
	life := l.life()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	defer l.whenDenied(m.Subject, before, cancel)()
	reply, err := l.nc.RequestMsgWithContext(ctx, m)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return reply, err
}

// whenDenied calls cancel when the server reports that this user may not publish to a subject, until stop is called.
func (l *link) whenDenied(subject string, before error, cancel context.CancelCauseFunc) (stop func()) {
	ctx, done := context.WithCancel(context.Background())
	var again func()
	again = func() {
		if err := l.denied(subject, before); err != nil {
			cancel(err)
			return
		}
		if ctx.Err() == nil {
			time.AfterFunc(look, again)
		}
	}
	timer := time.AfterFunc(look, again)
	return func() { done(); timer.Stop() }
}

// denied returns a *deniedError if the connection has reported since another error that a subject is denied, or ever
// that replies are.
func (l *link) denied(subject string, before error) error {
	err := l.nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	inboxes := l.nc.Opts.InboxPrefix
	if inboxes == "" {
		inboxes = nats.InboxPrefix
	}
	switch text := err.Error(); {
	case strings.Contains(text, `Subscription to "`+inboxes):
		return &deniedError{err: err, sent: true}
	case err != before && strings.Contains(text, `"`+subject+`"`): //nolint:errorlint // whether it is the same value
		return &deniedError{err: err}
	}
	return nil
}

// askAgain is how long a question may be without a reply before it is asked again.
const askAgain = 2 * time.Second

// insist is request for a question, which changes nothing: it is asked again until one of them has a reply. Servers
// ignore what is asked while a stream has no leader, so without that it would have no reply until ctx ends.
func (l *link) insist(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	return insist(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return l.request(ctx, &nats.Msg{Subject: m.Subject, Data: m.Data})
	})
}

// insist calls ask each time when askAgain has passed, and returns what the first call that ends has returned. The
// others have ended then, too.
func insist[R any](ctx context.Context, ask func(context.Context) (R, error)) (R, error) {
	type result struct {
		reply R
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan result, 1)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	for {
		asked.Go(func() {
			reply, err := ask(ctx)
			select {
			case first <- result{reply, err}:
			default:
			}
		})
		timer := time.NewTimer(askAgain)
		select {
		case r := <-first:
			timer.Stop()
			return r.reply, r.err
		case <-timer.C:
		}
	}
}

// call asks the API of JetStream. An error that JetStream reports is a *jetstream.APIError.
func (l *link) call(ctx context.Context, what string, request, response any) error {
	m := nats.NewMsg(l.prefix + what)
	if request != nil {
		data, err := json.Marshal(request)
		if err != nil {
			return err
		}
		m.Data = data
	}
	ask := l.request
	if strings.HasPrefix(what, "STREAM.INFO.") || strings.HasPrefix(what, "STREAM.MSG.GET.") {
		ask = l.insist
	}
	reply, err := ask(ctx, m)
	if err != nil {
		return err
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &failure); err != nil {
		return fmt.Errorf("the reply cannot be read: %w", err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	if err := json.Unmarshal(reply.Data, response); err != nil {
		return fmt.Errorf("the reply cannot be read: %w", err)
	}
	return nil
}

// last returns the last message of a key, which the leader of the stream reads. Its sequence is 0 if there is none.
func (l *link) last(ctx context.Context, of subjects, key string) (message, error) {
	m, subject, err := l.get(ctx, of, map[string]any{"last_by_subj": of.record(key)})
	if err == nil && m.Sequence != 0 && subject != of.record(key) {
		return message{}, fmt.Errorf("the reply has a message of the subject %.300q, not of %q", subject, of.record(key))
	}
	return m, err
}

// get returns the message that a request names, with its subject.
func (l *link) get(ctx context.Context, of subjects, request map[string]any) (m message, subject string, err error) {
	var reply struct {
		Message struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	err = l.call(ctx, "STREAM.MSG.GET."+of.stream(), request, &reply)
	var failure *jetstream.APIError
	switch {
	case errors.As(err, &failure) && failure.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return message{}, "", nil
	case err != nil:
		return message{}, "", err
	case reply.Message.Sequence == 0:
		return message{}, "", errors.New("the reply has no message")
	}
	m = message{Sequence: reply.Message.Sequence, Data: reply.Message.Data}
	if len(reply.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(reply.Message.Header); err != nil {
			m.bad = errors.New("its headers cannot be read")
		}
	}
	return m, reply.Message.Subject, nil
}
