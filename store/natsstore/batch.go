package natsstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/nats-io/nuid"

	"github.com/soloist-dev/soloist/store/casstore"
)

// The headers of atomic batches.
const (
	headerBatch         = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// largestBatch is how many messages one batch has. A server accepts 1,000, if it is not configured otherwise.
const largestBatch = 1000

// publishBatches writes changes in atomic batches. It returns those whose batch was refused: the server stores all messages of a batch, or none.
func (b *backend) publishBatches(ctx context.Context, l *link, changes []casstore.Change, which []int, results []casstore.Result) (again []int) {
	for some := range slices.Chunk(which, largestBatch) {
		if len(some) == 1 {
			again = append(again, some...)
			continue
		}
		last, err := b.publishBatch(ctx, l, changes, some)
		switch {
		case err == nil:
			for i, at := range some {
				results[at] = result(changes[at], last-uint64(len(some)-1-i), nil) //nolint:gosec // both are small
			}
		case refused(err):
			again = append(again, some...)
		default:
			for _, at := range some {
				results[at] = result(changes[at], 0, err)
			}
		}
	}
	return again
}

// publishBatch publishes one batch and returns the sequence of its last message. The server confirms the last message alone, and gives all of them sequences that
// follow one another.
func (b *backend) publishBatch(ctx context.Context, l *link, changes []casstore.Change, some []int) (uint64, error) {
	id := nuid.Next()
	for i, at := range some {
		m, err := b.message(l, changes[at], changes[at].Version)
		if err != nil {
			return 0, err
		}
		m.Header.Set(headerBatch, id)
		m.Header.Set(headerBatchSequence, strconv.Itoa(i+1))
		if i == len(some)-1 {
			m.Header.Set(headerBatchCommit, "1")
			return b.send(ctx, l, m, func(a ack) bool { return a.Batch == id && a.Count == len(some) })
		}
		if err := l.nc.PublishMsg(m); err != nil {
			return 0, err // without its last message the server drops the batch
		}
	}
	return 0, errNotSent
}
