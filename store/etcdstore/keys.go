package etcdstore

import (
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys of a name are its name with one of these behind. A name has no control characters, so no name's keys are between those of another.
const (
	recordKey = "\trecord"
	takenKey  = "\ttaken"
)

// keys makes keys from names.
type keys struct{ prefix string }

func (k keys) names() string             { return k.prefix + "n/" }
func (k keys) record(name string) string { return k.names() + name + recordKey }
func (k keys) taken(name string) string  { return k.names() + name + takenKey }
func (k keys) session(id clientv3.LeaseID) string {
	return k.prefix + "s/" + strconv.FormatUint(uint64(id), 16) //nolint:gosec // an ID is any 64 bits
}

// both returns the range of the keys of a name.
func (k keys) both(name string) (from, to string) {
	return k.names() + name + "\t", k.names() + name + "\n"
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
