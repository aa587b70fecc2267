package server

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"
)

const (
	eventStream = "text/event-stream"
	eventHeader = "Last-Event-ID"

	heartbeat = 15 * time.Second

	// eventOverlap is how much of what was told before a connection broke is told again after it: the clocks of replicas differ.
	eventOverlap = 10 * time.Second

	// lateRecord is how much more of the runs that ended: while the store is away for who made a run, its record has to wait for as long as its lease lasts.
	lateRecord = 50 * time.Second
)

func (s *Server) eventRoutes() []route {
	return []route{{method: http.MethodGet, path: "/v1/events", summary: "Receive what changes, as server-sent events, for as long as the connection lives", role: roleRead,
		header: []parameter{{name: eventHeader, about: "the ID of the last event that was received: what is known to have happened since is told first"}},
		out:    reflect.TypeFor[Event](), stream: eventStream, codes: []string{codeBusy}, do: (*call).events}}
}

// events sends changes until the client goes, is too slow, its token is gone, or the server is shut down.
func (c *call) events() (any, error) {
	from, err := c.lastEvent()
	if err != nil {
		return nil, err
	}
	leave, err := c.enter(c.server.listening, roleRead, "events")
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, stop := c.untilClosing()
	defer stop()
	r, begin, there := c.server.watch.subscribe(ctx)
	if there {
		defer c.server.watch.leave(r)
	}
	c.streams(eventStream)
	if !there || !c.stillKnown() { // the client or its token has gone, or the server is closing
		c.send(endEvent("closing"))
		return nil, nil
	}
	id := func(whole time.Time) time.Time {
		if whole.IsZero() { // all that this connection cannot be told is after this
			return cmp.Or(from, c.arrived)
		}
		return whole
	}
	told := []event{storeEvent(begin)}
	if !from.IsZero() {
		told = append(told, begin.since(from.Add(-eventOverlap))...)
	}
	if !c.send(append([]byte("retry: 2000\n"), c.batch(id(begin.whole()), told)...)) {
		return nil, nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text := []byte(": alive\n\n")
		select {
		case b, open := <-r.batches:
			if !open {
				c.send(endEvent("slow"))
				return nil, nil
			}
			r.has(b)
			if text = c.batch(id(b.whole), b.events); len(text) == 0 {
				continue
			}
		case <-beat.C:
		case <-ctx.Done():
			c.send(endEvent("closing"))
			return nil, nil
		}
		if !c.stillKnown() {
			c.send(endEvent("closing"))
			return nil, nil
		}
		if !c.send(text) {
			return nil, nil
		}
	}
}

// lastEvent returns the instant of the last event that the client has received; zero if it gives none.
func (c *call) lastEvent() (time.Time, error) {
	text := c.Header.Get(eventHeader)
	if text == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > time.Now().Add(time.Hour).UnixMilli() {
		return time.Time{}, bad(eventHeader, "give the id of an event as it was received")
	}
	return time.UnixMilli(n), nil
}

// batch returns the events that the caller may see as they are sent. Their ID is the instant up to which all has been read; the last one has it, so
// that a client that received a part gets the whole again.
func (c *call) batch(at time.Time, events []event) []byte {
	var text bytes.Buffer
	last := 0
	for _, e := range events {
		if e.forAll || c.caller.mayUse(e.subject) == nil {
			last = text.Len()
			fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", e.name, e.data)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return append(text.Bytes()[:last:last], fmt.Appendf(nil, "id: %d\n%s", at.UnixMilli(), text.Bytes()[last:])...)
}

func endEvent(why string) []byte {
	e := eventForAll(Event{Event: "end", Why: why})
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, e.data)
}
