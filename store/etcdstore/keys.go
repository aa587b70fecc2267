package etcdstore

import (
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys of a name are its name with one of these behind. A name has no control characters, so no name's keys are between those of another.
// The keys of its queue come after the others; behind each of them is a holder. The
// key "taken queue" is there while somebody waits: a release that lets the name linger deletes it, so that those who wait hear of that.
const (
	recordKey  = "\trecord"
	takenKey   = "\ttaken"
	queuedKey  = "\ttaken\tqueue"
	waitingKey = "\twaiting\t"
)

// keys makes keys from names.
type keys struct{ prefix string }

func (k keys) names() string             { return k.prefix + "n/" }
func (k keys) record(name string) string { return k.names() + name + recordKey }
func (k keys) taken(name string) string  { return k.names() + name + takenKey }
func (k keys) session(id clientv3.LeaseID) string {
	return k.prefix + "s/" + strconv.FormatUint(uint64(id), 16) //nolint:gosec // an ID is any 64 bits
}

func (k keys) ticket(name, holder string) string { return k.names() + name + waitingKey + holder }

func (k keys) queued(name string) string { return k.names() + name + queuedKey }

// note returns the key that tells a handle that a name was handed over to it.
func (k keys) note(inbox, name string) string { return k.prefix + "i/" + inbox + "/" + name }

// both returns the range of the two keys of a name.
func (k keys) both(name string) (from, to string) {
	return k.names() + name + "\t", k.names() + name + waitingKey
}

// ends returns the range of the keys whose deletion those who wait must hear of.
func (k keys) ends(name string) (from, to string) {
	return k.names() + name + takenKey, k.names() + name + takenKey + "\n"
}

// inbox returns the range of the keys that tell a handle what was handed over to it. Each has a name behind.
func (k keys) inbox(id string) (from, to string) {
	return k.prefix + "i/" + id + "/", k.prefix + "i/" + id + "0"
}

// queue returns the range of the keys of a name's queue.
func (k keys) queue(name string) (from, to string) {
	return k.names() + name + waitingKey, k.names() + name + "\n"
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
