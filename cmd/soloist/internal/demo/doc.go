// Package demo shows the main job on real processes: three replicas of this program share one SQLite file, one is
// killed and one is paused in the middle of a run, and at the end an audit of all that happened says what was done how
// often.
//
// Its one idea: nothing is believed. Every process writes down what it does when it does it, with the time of one clock
// that all of them share; the service that they write to notes what reached it; and the audit is drawn from these notes
// alone, by functions that fail on a history in which something was done twice, too late, or not at all.
//
// # The cast
//
//   - The job "ledger" is due every second, and writes one line to the ledger of a service.
//   - The elements "invoices" are issued by the same service, which would issue one twice if it were asked twice.
//   - The semaphore "pdf" lets two replicas at a time render.
//   - The service listens on loopback in the process that directs the demo. It is guarded by fencing tokens.
//
// The director never waits for a time to pass, but for what it wants to see: it tells all replicas to halt in the
// middle of their next run, and whichever has the next run is the one that is killed, or paused. The only times in it
// are those of leases.
package demo
