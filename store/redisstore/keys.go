package redisstore

import (
	"hash/fnv"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// buckets is how many parts the records of a cluster fall into. All keys of a part have one hash tag, so that a script can change a
// record, the index of names and the floor of tokens in one step, and so that a batch is at most so many calls. Elsewhere there
// is one part, and a batch is one call.
const buckets = 64

// A bucket has the keys of one part. The scripts make those from the key of a record that are not named here.
type bucket struct {
	tag     string // what all of them begin with; scripts get it as their first argument
	records string // what the keys of records begin with; the name follows as it is
	floor   string // what the first token of a name must be above: the greatest that was forgotten
	names   string // sorted set of the names that have records
	due     string // sorted set of the names by when they may be forgotten, if they may
	channel string // what the channels of names begin with
	watched string // is there while somebody watches names
}

func newBuckets(prefix string, n int) []bucket {
	parts := make([]bucket, n)
	for i := range parts {
		tag := "{" + prefix + ":" + strconv.Itoa(i) + "}:"
		parts[i] = bucket{
			tag: tag, records: tag + "r:", floor: tag + "floor", names: tag + "names", due: tag + "due", channel: tag + "c:", watched: tag + "watched",
		}
	}
	return parts
}

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

// grouped yields the parts that names fall into, in the order of their first name, and the indices of the names of each, in order. It passes by what is "".
func (s *Store) grouped(names []string) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		if len(s.parts) == 1 {
			all := make([]int, 0, len(names))
			for i, name := range names {
				if name != "" {
					all = append(all, i)
				}
			}
			yield(0, all)
			return
		}
		var parts []int
		members := map[int][]int{}
		for i, name := range names {
			if name == "" {
				continue
			}
			part := s.bucketOf(name)
			if _, seen := members[part]; !seen {
				parts = append(parts, part)
			}
			members[part] = append(members[part], i)
		}
		for _, part := range parts {
			if !yield(part, members[part]) {
				return
			}
		}
	}
}

// scattered reports whether names fall into several parts.
func (s *Store) scattered(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.bucketOf(name) != s.bucketOf(names[0]) })
}
