package etcdstore

import (
	"encoding/json"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// A ticket is the place of a holder in the queue of a name: a key that is attached to the lease of etcd which the name will be attached to. So it is gone when the
// process of the holder is. The tickets are served in the order in which they were created.
type ticket struct {
	Holder   string           `json:"holder"`
	TTL      time.Duration    `json:"ttl_ns"` // that the holder asks for; 0 if something else has written the key
	Inbox    string           `json:"inbox"`  // of its handle
	Lease    clientv3.LeaseID `json:"lease"`
	Revision int64            `json:"revision"` // of its last change
}

// A ticketValue is the value of a ticket's key, as JSON.
type ticketValue struct {
	TTL   time.Duration `json:"ttl_ns"`
	Inbox string        `json:"inbox"`
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
	if json.Unmarshal(kv.Value, &v) == nil && t.Lease != clientv3.NoLease && (store.Claim{Name: name, Holder: t.Holder, TTL: v.TTL}).Check() == nil {
		t.TTL, t.Inbox = v.TTL, v.Inbox
	}
	return t
}

// lineOf returns who is next after a release of a name, as far as this handle knows: the transaction of the release checks it. Tickets that came later
// than those that it knows are behind them.
func (s *Store) lineOf(name string, p pair) []ticket {
	if p.asked {
		return p.line
	}
	if h := s.holdingOf(name, p); h != nil {
		return h.line
	}
	return nil
}

// handOver returns the condition under which the change of a release is right, and what it does to the name's other keys: the first of the queue must be who
// it is taken for, or nobody.
func (s *Store) handOver(t *task) (is clientv3.Cmp, ops []clientv3.Op, err error) {
	heir := t.change.heir()
	if h := s.holdingOf(t.name, t.pair); h != nil && h.noted && (heir == nil || heir.Inbox != s.inbox.id) {
		ops = append(ops, clientv3.OpDelete(s.keys.note(s.inbox.id, t.name)))
	}
	if len(t.change.line) == 0 {
		from, to := s.keys.queue(t.name)
		first, last := s.keys.ends(t.name)
		return clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to), append(ops, clientv3.OpDelete(first, clientv3.WithRange(last))), nil
	}
	first := t.change.line[0]
	key := s.keys.ticket(t.name, first.Holder)
	is = clientv3.Compare(clientv3.ModRevision(key), "=", first.Revision)
	ops = append(ops, clientv3.OpDelete(key))
	if heir == nil { // no ticket of a store: without it, the next release hands over again
		return is, append(ops, clientv3.OpDelete(s.keys.taken(t.name))), nil
	}
	value, err := json.Marshal(note{*t.change.record, t.change.line[1:]})
	if err != nil {
		return is, nil, err
	}
	of := clientv3.WithLease(heir.Lease)
	return is, append(ops, clientv3.OpPut(s.keys.taken(t.name), "", of), clientv3.OpPut(s.keys.note(heir.Inbox, t.name), string(value), of)), nil
}
