package demo

import "time"

// render renders one document after the other, each under a permit.
func (r *replica) render() {
	semaphore := r.client.Semaphore(semaphoreName, permits)
	for sleep(r.ctx, renderRest) {
		lease, err := semaphore.Acquire(r.ctx)
		if err != nil {
			continue // draining, or the store did not answer
		}
		belief := believe(lease)
		r.emit(event{Kind: permit, Token: lease.Token()})
		for page := 0; page < pages && belief.look(); page++ {
			time.Sleep(pageTime)
		}
		now, held := belief.end()
		r.emit(event{Kind: permitEnd, Token: lease.Token(), At: now, Held: held})
		_ = lease.Release() // if it is lost, the permit is another's already
	}
}
