package etcdstore

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A ticket is the place of a holder in the queue of a name: a key that is attached to the lease of etcd of the session which will have the name. So it is gone when the
// process of the holder is. The tickets are served in the order in which they were created.
type ticket struct {
	Holder   string           `json:"holder"`
	TTL      time.Duration    `json:"ttl_ns"` // that the holder asks for; 0 if something else has written the key
	Inbox    string           `json:"inbox"`  // of its handle
	Session  string           `json:"session"`
	Lease    clientv3.LeaseID `json:"lease"`
	Revision int64            `json:"revision"` // of its last change
}

// A ticketValue is the value of a ticket's key, as JSON.
type ticketValue struct {
	TTL     time.Duration `json:"ttl_ns"`
	Inbox   string        `json:"inbox"`
	Session string        `json:"session"`
}

// A note is the value of a key in an inbox, as JSON: the name was handed over, and these are next in its queue. So a release need not read the queue, until
// all who were in it when it was read last have had the name.
type note struct {
	Record record   `json:"record"`
	Line   []ticket `json:"line,omitempty"`
}

// mostNext is how many tickets are read at a time.
const mostNext = 64

// getLine reads the first tickets of a queue.
func (k keys) getLine(name string) clientv3.Op {
	from, to := k.queue(name)
	return clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(mostNext))
}

// lineOf returns the tickets of a reply to getLine.
func (k keys) lineOf(name string, kvs []*mvccpb.KeyValue) (line []ticket) {
	for _, kv := range kvs {
		line = append(line, k.ticketOf(name, kv))
	}
	return line
}

// ticketOf reads a ticket.
func (k keys) ticketOf(name string, kv *mvccpb.KeyValue) ticket {
	t := ticket{Holder: strings.TrimPrefix(string(kv.Key), k.ticket(name, "")), Lease: clientv3.LeaseID(kv.Lease), Revision: kv.ModRevision}
	var v ticketValue
	if json.Unmarshal(kv.Value, &v) == nil && t.Lease != clientv3.NoLease && t.Lease == leaseOf(v.Session) && len(v.Inbox) <= mostOfID && (store.Claim{Name: name, Holder: t.Holder, TTL: v.TTL}).Check() == nil {
		t.TTL, t.Inbox, t.Session = v.TTL, v.Inbox, v.Session
	}
	return t
}

// lineOf returns who is next after a release of a name, as far as this handle knows: the transaction of the release checks it. Tickets that came later
// than those that it knows are behind them. A ticket of a session that has ended is passed by.
func (s *Store) lineOf(name string, p pair) []ticket {
	line := p.line
	if h := s.holdingOf(name, p); h != nil && !p.asked {
		line = h.line
	}
	if len(line) > 0 && line[0].TTL > 0 && s.sights.gone(line[0].Session) {
		line = slices.Clone(line)
		line[0].TTL = 0
	}
	return line
}

// handOver adds to the step of a release what it does with the queue: the first of it must be who it is taken for, or nobody.
func (s *Store) handOver(t *task, of *step) error {
	heir := t.change.heir()
	h := s.holdingOf(t.name, t.pair)
	noted := h != nil && h.noted
	if noted && (heir == nil || heir.Inbox != s.inbox.id) {
		of.then = append(of.then, clientv3.OpDelete(s.keys.note(s.inbox.id, t.name)))
	}
	if len(t.change.line) == 0 {
		from, to := s.keys.waited(t.name)
		if noted || t.pair.asked { // somebody has waited
			of.then = append(of.then, clientv3.OpDelete(from))
			from, to = s.keys.queue(t.name)
		}
		of.are = append(of.are, clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to))
		return nil
	}
	first := t.change.line[0]
	key := s.keys.ticket(t.name, first.Holder)
	of.are = append(of.are, clientv3.Compare(clientv3.ModRevision(key), "=", first.Revision))
	of.then = append(of.then, clientv3.OpDelete(key))
	if heir == nil { // no ticket of a store, or of a session that has ended: without it, the next release hands over again
		of.then = append(of.then, clientv3.OpDelete(s.keys.queued(t.name)))
		return nil
	}
	value, err := json.Marshal(note{*t.change.record, t.change.line[1:]})
	if err != nil {
		return err
	}
	of.there = append(of.there, heir.Session)
	of.then = append(of.then, clientv3.OpPut(s.keys.queued(t.name), "", clientv3.WithLease(heir.Lease)),
		clientv3.OpPut(s.keys.note(heir.Inbox, t.name), string(value), clientv3.WithLease(heir.Lease)))
	return nil
}
