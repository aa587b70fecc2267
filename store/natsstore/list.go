package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store/casstore"
)

// page is how many records a list reads with one request.
const page = 500

// List implements casstore.Backend. It reads the whole bucket, in the order of its sequences, and sorts what it found.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		found := map[string]casstore.Item{}
		for cursor := ""; ; {
			items, next, err := b.Walk(ctx, cursor, page)
			if err != nil {
				yield(casstore.Item{}, err)
				return
			}
			for _, item := range items {
				if strings.HasPrefix(item.Name, prefix) {
					found[item.Name] = item // one that was written meanwhile comes again
				}
			}
			if cursor = next; next == "" {
				break
			}
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if !yield(found[name], nil) {
				return
			}
		}
	}
}

// Walk implements casstore.Backend. The cursor is a sequence. Any replica may reply, also one that lags behind: the end is where the leader has no
// more messages.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	from := uint64(1)
	if cursor != "" {
		if from, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", err
		}
	}
	l, err := b.link(ctx)
	if err != nil {
		return nil, "", err
	}
	messages, more, err := b.messages(ctx, l, from, n)
	if err == nil && !more {
		messages, more, err = b.beyond(ctx, l, from, n, messages)
	}
	if err != nil {
		b.doubt(err)
		return nil, "", wrap("listing", err)
	}
	for _, m := range messages {
		from = m.Sequence + 1
		key := strings.TrimPrefix(m.Header.Get(headerSubject), b.record(""))
		name, ok := nameOf(key)
		if !ok {
			items = append(items, casstore.Item{Name: probe + key, Err: fmt.Errorf("the key %q of the bucket %q is that of no name: something else has written it", key, b.bucket)})
			continue
		}
		if item := m.item(name); item.Version != "" || item.Err != nil {
			items = append(items, item)
		}
	}
	if more {
		next = strconv.FormatUint(from, 10)
	}
	return items, next, nil
}

// messages reads up to n messages from a sequence on, and reports whether there are more.
func (b *backend) messages(ctx context.Context, l *link, from uint64, n int) (found []message, more bool, err error) {
	request, err := json.Marshal(map[string]any{"seq": from, "batch": n, "next_by_subj": b.all()})
	if err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	life := l.life()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	subject, before := l.prefix+"DIRECT.GET."+b.stream(), l.nc.LastError()
	defer l.whenDenied(subject, before, cancel)()
	inbox := l.nc.NewInbox()
	replies, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = replies.Unsubscribe() }()
	if err := l.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: request}); err != nil {
		return nil, false, err
	}
	for {
		reply, err := replies.NextMsgWithContext(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, false, err
		}
		switch status := reply.Header.Get("Status"); status {
		case "":
		case "204": // the end of the batch
			pending, _ := strconv.Atoi(reply.Header.Get("Nats-Num-Pending"))
			if pending > 0 && len(found) == 0 {
				return nil, false, errors.New("the server has replied with none of the messages that there are")
			}
			return found, pending > 0, nil
		case "404":
			return found, false, nil
		case "503":
			return nil, false, nats.ErrNoResponders
		default:
			return nil, false, fmt.Errorf("the server has replied with the status %s: %s", status, reply.Header.Get("Description"))
		}
		m := message{Header: reply.Header, Data: reply.Data}
		if len(reply.Header) == 0 { // they cannot be read: the leader says which message that is
			if m, err = b.after(ctx, l, from, found); err != nil {
				return nil, false, err
			}
		} else if m.Sequence, err = strconv.ParseUint(reply.Header.Get(headerSequence), 10, 64); err != nil || m.Sequence < from || len(found) == n {
			return nil, false, errors.New("a reply has no sequence that fits")
		}
		if m.Sequence != 0 {
			found = append(found, m)
		}
	}
}

// beyond adds to all messages from a sequence on that a replica has the next one that the leader has, and reports whether there may be more.
func (b *backend) beyond(ctx context.Context, l *link, from uint64, n int, all []message) ([]message, bool, error) {
	if len(all) == n {
		return all, true, nil
	}
	m, err := b.after(ctx, l, from, all)
	if err != nil || m.Sequence == 0 {
		return all, false, err
	}
	return append(all, m), true, nil
}

// after returns the message that comes after others, or from a sequence on. Its sequence is 0 if there is none.
func (b *backend) after(ctx context.Context, l *link, from uint64, others []message) (message, error) {
	if n := len(others); n > 0 {
		from = others[n-1].Sequence + 1
	}
	m, subject, err := l.get(ctx, b.subjects, map[string]any{"seq": from, "next_by_subj": b.all()})
	if m.Sequence != 0 {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(headerSubject, subject)
	}
	return m, err
}
