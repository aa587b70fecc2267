package mysqlstore

import (
	"strings"

	"github.com/soloist-dev/soloist/store/internal/shedlock"
)

// row returns the name of a record's row. In a table shared with ShedLock, a lock and a job of a name are the row of that name.
func (s *Store) row(record string) string {
	if !s.cfg.ShedLock {
		return record
	}
	name, _ := shedlock.Bare(record)
	return name
}

// mayShare returns an error about a name whose row would be that of a record of soloist's own.
func (s *Store) mayShare(name string) error {
	if !s.cfg.ShedLock {
		return nil
	}
	return shedlock.Check(name)
}

// record is what the row says of the record's name: nothing where the two are the same in all rows.
func (s *Store) record(name string) cell { return nullableCell(name, s.cfg.ShedLock) }

// bareRange returns between which names the rows are that only ShedLock knows, and whose records are at least first and below last.
func bareRange(first, last string) (string, string) {
	return bareBound(first), bareBound(last)
}

// bareBound is the least name whose record is not below bound.
func bareBound(bound string) string {
	switch {
	case strings.HasPrefix(bound, shedlock.Lock):
		return bound[len(shedlock.Lock):]
	case bound <= shedlock.Lock:
		return ""
	}
	return "\xff"
}

// maxBatch and maxBatchBytes are how much goes into one request. A name stands in it in hexadecimal, up to three times, and a state in
// hexadecimal or base64, so that a request has up to eight times the bytes.
const (
	maxBatch      = 1024
	maxBatchBytes = 2 << 20
)

// maxBytes is less where the server takes less (max_allowed_packet), and before it has been asked.
func (s *Store) maxBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return maxBatchBytes / 16
	}
	return min(maxBatchBytes, s.server.packet/8)
}

// requests splits a batch into requests.
func (s *Store) requests(indexes []int, size func(i int) int) (all [][]int) {
	bytes, most := 0, s.maxBytes()
	for _, i := range indexes {
		n := size(i)
		if last := len(all) - 1; last < 0 || len(all[last]) == maxBatch || bytes+n > most {
			all, bytes = append(all, nil), 0
		}
		all[len(all)-1] = append(all[len(all)-1], i)
		bytes += n
	}
	return all
}

// layers splits a request into parts that follow each other in its transaction: no row is in one twice, and what is said of a row stays
// in its order.
func layers(request []int, row func(i int) string) (all [][]int) {
	seen := make(map[string]int, len(request))
	for _, i := range request {
		n := seen[row(i)]
		seen[row(i)]++
		if n == len(all) {
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// valid returns the indexes of what passes its check, and writes down why the others do not.
func valid[T any](all []T, check func(T) error, refuse func(i int, err error)) []int {
	indexes := make([]int, 0, len(all))
	for i, one := range all {
		if err := check(one); err != nil {
			refuse(i, err)
			continue
		}
		indexes = append(indexes, i)
	}
	return indexes
}
