package natsstore

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestDenialOfAnotherName: that a user may not write one name is not taken for a denial of another one, which differs in case: its write may have been stored.
func TestDenialOfAnotherName(t *testing.T) {
	server := servers.NATS(t, 1, `authorization: { users: [ { user: w, password: p, permissions: { publish: "$KV.locks.Job", subscribe: ">" } } ] }`)[0]
	nc, err := nats.Connect("nats://"+server.Addr, nats.UserInfo("w", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("$KV.locks.job", nil); err != nil {
		t.Fatal(err)
	}
	servers.Wait(t, "the denial", func() bool { return nc.LastError() != nil })
	l := &link{nc: nc}
	var denied *deniedError
	if err := l.denied("$KV.locks.job", nil); !errors.As(err, &denied) || denied.sent {
		t.Errorf("the name that was denied: %v", err)
	}
	if err := l.denied("$KV.locks.Job", nil); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := l.denied("$KV.locks.job", nc.LastError()); err != nil { // the right may have been given since
		t.Errorf("what was denied to an earlier request: %v", err)
	}
}

// TestDenialOfReplies: who may not receive replies, for example since its rights have changed, does not know what
// became of its requests, as they are carried out. So it is with another prefix of inboxes.
func TestDenialOfReplies(t *testing.T) {
	server := servers.NATS(t, 1,
		`authorization: { users: [ { user: w, password: p, permissions: { publish: ">", subscribe: { deny: ["_INBOX.>", "_OF.w.>"] } } } ] }`)[0]
	for _, prefix := range []string{nats.InboxPrefix, "_OF.w"} {
		options := nats.GetDefaultOptions()
		options.Url, options.User, options.Password = "nats://"+server.Addr, "w", "p"
		options.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
		if prefix != nats.InboxPrefix {
			options.InboxPrefix = prefix
		}
		nc, err := options.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
		defer cancel()
		l := &link{nc: nc, broken: ctx}
		_, err = l.request(ctx, nats.NewMsg("$KV.locks.job"))
		var denied *deniedError
		if !errors.As(err, &denied) || !errors.Is(unsure("claiming", err), store.ErrUnknown) {
			t.Errorf("%s: %v, want a denial of replies and an unknown outcome", prefix, err)
		}
		// as long as the connection lasts
		if err := l.denied("$KV.locks.other", nc.LastError()); !errors.As(err, &denied) || !denied.sent {
			t.Errorf("%s: a later request: %v, want a denial of replies", prefix, err)
		}
	}
}
