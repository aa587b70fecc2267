package demo

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"

	"github.com/soloist-dev/soloist"
)

// batch is how many invoices a replica claims at once.
const batch = 10

// issue issues invoices until none is left: those that another replica has are looked at again, for it may die.
func (r *replica) issue(invoices []invoice) {
	elements := r.client.Elements(elementsName, soloist.ElementsOptions{})
	todo := r.shuffled(invoices)
	for len(todo) > 0 && r.ctx.Err() == nil {
		n := min(batch, len(todo))
		again := r.issueBatch(elements, todo[:n])
		todo = append(todo[n:], again...)
		if len(again) == n {
			sleep(r.ctx, lookAgain)
		}
	}
	if len(todo) == 0 {
		r.emit(event{Kind: allIssued})
	}
}

// shuffled puts the invoices into an order of this replica's own.
func (r *replica) shuffled(invoices []invoice) []string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.replica))
	ids := make([]string, len(invoices))
	for i, at := range rand.New(rand.NewPCG(h.Sum64(), 0)).Perm(len(ids)) {
		ids[i] = invoices[at].ID
	}
	return ids
}

// issueBatch claims what it can of ids, issues it, and records it as processed. It returns what is to be looked at
// again.
func (r *replica) issueBatch(elements *soloist.Elements, ids []string) (again []string) {
	claimed, err := elements.ClaimAll(r.ctx, ids)
	if err != nil {
		return ids
	}
	var issued []*soloist.Element
	for _, c := range claimed {
		switch {
		case errors.Is(c.Err, soloist.ErrDone):
		case c.Err == nil && r.issueOne(c.Element):
			issued = append(issued, c.Element)
		default:
			again = append(again, c.ID)
		}
	}
	for i, err := range elements.DoneAll(issued) {
		if err != nil { // the lease is lost, or the store did not answer
			again = append(again, issued[i].ID())
		}
	}
	return again
}

// issueOne issues one invoice, or gives it back.
func (r *replica) issueOne(el *soloist.Element) bool {
	err := r.ctx.Err()
	if err == nil {
		err = el.Err() // it may have waited for its turn in the batch for longer than its lease
	}
	if err == nil {
		err = r.service.once(el.Lease, invoicePaths+el.ID(), func() {})
	}
	if err != nil {
		_ = el.Release() // if it is lost, somebody else has it
	}
	return err == nil
}
