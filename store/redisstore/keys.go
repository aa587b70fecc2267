package redisstore

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// buckets is how many parts the records of a cluster fall into. All keys of a part have one hash tag, so that a script can change a
// record, the index of names and the counter of tokens in one step, and so that a batch is at most so many calls. Elsewhere there
// is one part, and a batch is one call.
const buckets = 64

// A bucket has the keys of one part.
type bucket struct {
	counter string // the greatest token that was granted here: forgetting a record never lets one repeat
	names   string // sorted set of the names that have records
	due     string // sorted set of the names by when they may be forgotten, if they may
	records string // what the keys of records begin with; the name follows as it is
	channel string // what the channels of names begin with
	tag     string // what all of them begin with
}

func newBuckets(prefix string, n int) []bucket {
	parts := make([]bucket, n)
	for i := range parts {
		tag := "{" + prefix + ":" + strconv.Itoa(i) + "}:"
		parts[i] = bucket{counter: tag + "token", names: tag + "names", due: tag + "due", records: tag + "r:", channel: tag + "c:", tag: tag}
	}
	return parts
}

// indexes are the keys of a part that are of no single name.
func (b *bucket) indexes() []string { return []string{b.counter, b.names, b.due} }

// bucketOf returns the part of a name. It must never change: records would be lost.
//
// Names that differ only in a number of at most three digits after the last slash fall into one part, so that one of many such names, such as
// the permits of a semaphore, can be chosen in one step. Longer numbers are what things are called, of which there are too many for a part.
func (s *Store) bucketOf(name string) int {
	if len(s.parts) == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(family(name)))
	return int(h.Sum32() % uint32(len(s.parts))) //nolint:gosec // there are few
}

// family returns the name without a short number at its end.
func family(name string) string {
	i := strings.LastIndexByte(name, '/')
	number := name[i+1:]
	if i < 0 || number == "" || len(number) > 3 || strings.Trim(number, "0123456789") != "" {
		return name
	}
	return name[:i]
}

// grouped returns the indices of names by part, in order, and the parts in the order of their first name.
func (s *Store) grouped(n int, name func(int) string) (parts []int, members map[int][]int) {
	members = map[int][]int{}
	for i := range n {
		part := s.bucketOf(name(i))
		if _, seen := members[part]; !seen {
			parts = append(parts, part)
		}
		members[part] = append(members[part], i)
	}
	return parts, members
}
