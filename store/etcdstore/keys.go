package etcdstore

import (
	"crypto/rand"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys of a name are its name with one of these behind. A name has no control characters, so no name's keys are between those of another.
// The places of its queue come last; behind each of them is a holder. The key before them is there while somebody waits for a name that is held: it is
// attached to the lease of etcd of the session that holds the name, and deleted when nobody has the name or it lingers, so that those who wait hear of that.
const (
	recordKey  = "\trecord"
	queuedKey  = "\twaiting"
	waitingKey = "\twaiting\t"
)

// keys makes keys from names.
type keys struct{ prefix string }

func (k keys) names() string              { return k.prefix + "n/" }
func (k keys) record(name string) string  { return k.names() + name + recordKey }
func (k keys) queued(name string) string  { return k.names() + name + queuedKey }
func (k keys) sessions() string           { return k.prefix + "s/" }
func (k keys) session(name string) string { return k.sessions() + name }

func (k keys) ticket(name, holder string) string { return k.names() + name + waitingKey + holder }

// note returns the key that tells a handle that a name was handed over to it.
func (k keys) note(inbox, name string) string { return k.prefix + "i/" + inbox + "/" + name }

// inbox returns the range of the keys that tell a handle what was handed over to it. Each has a name behind.
func (k keys) inbox(id string) (from, to string) {
	return k.prefix + "i/" + id + "/", k.prefix + "i/" + id + "0"
}

// queue returns the range of the keys of a name's queue.
func (k keys) queue(name string) (from, to string) {
	return k.names() + name + waitingKey, k.names() + name + "\n"
}

// waited returns the range of the keys that are there while somebody waits for a name: those of its queue, and the one before.
func (k keys) waited(name string) (from, to string) {
	return k.names() + name + queuedKey, k.names() + name + "\n"
}

// name returns the name and the kind of a key, and false for a key that is not of a name.
func (k keys) name(key []byte) (name, kind string, ok bool) {
	rest, below := strings.CutPrefix(string(key), k.names())
	i := strings.IndexByte(rest, '\t')
	if !below || i < 0 {
		return "", "", false
	}
	return rest[:i], rest[i:], true
}

// newSession returns a name for the session of a lease of etcd. Nobody else has it, also if etcd uses the ID of the lease again: so a session that has ended is
// never there again, and neither are the leases that it held.
func newSession(id clientv3.LeaseID) string {
	return strconv.FormatUint(uint64(id), 16) + "." + rand.Text()[:10] //nolint:gosec // an ID is any 64 bits
}

// mostOfID is how many bytes the names of sessions and of inboxes have at most. They are part of requests, which must not become as long as etcd refuses because of what somebody has written.
const mostOfID = 64

// leaseOf returns the lease of etcd of a session, NoLease if the text is not the name of one.
func leaseOf(session string) clientv3.LeaseID {
	id, unique, _ := strings.Cut(session, ".")
	n, err := strconv.ParseUint(id, 16, 64)
	if err != nil || unique == "" || len(session) > mostOfID {
		return clientv3.NoLease
	}
	return clientv3.LeaseID(n) //nolint:gosec // as in newSession
}
