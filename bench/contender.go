package main

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A contender is one way to lock, connected to a server. It is safe for use by many goroutines at once.
type contender interface {
	// Try takes a name if it is free; errHeld if not.
	Try(ctx context.Context, name string) (hold, error)
	// Lock waits for a name, in the way that its users would.
	Lock(ctx context.Context, name string) (hold, error)
	Close()
}

// A hold is a name that was taken.
type hold struct {
	unlock func() error
	extend func(context.Context) error // what its user has to call, once in a third of the TTL; nil when it renews itself
}

var errHeld = errors.New("held by somebody else")

// A spec says how to get a contender.
type spec struct {
	name   string
	cases  string // the letters of those that it takes part in
	floor  bool   // what the ratios of its backend are to
	ours   bool
	module string   // that it comes from
	sends  []string // commands that its clients send, on a server that counts those of scripts among them; no script of its may call one
	open   func(ctx context.Context, url string, ttl time.Duration) (contender, error)

	// serves returns what the process of a service serves, and what ends it. It is nil for others.
	serves func(ctx context.Context, url string) (http.Handler, func(), error)
}

// plain is a contender made of functions.
type plain struct {
	try   func(ctx context.Context, name string) (hold, error)
	lock  func(ctx context.Context, name string) (hold, error)
	close func()
}

func (p plain) Try(ctx context.Context, name string) (hold, error)  { return p.try(ctx, name) }
func (p plain) Lock(ctx context.Context, name string) (hold, error) { return p.lock(ctx, name) }
func (p plain) Close()                                              { p.close() }

// lockTTL is the TTL of the leases in all cases but E.
const lockTTL = 30 * time.Second
