// Package sim runs fleets of replicas of the real client in fake time, on a store behind a network that an adversary owns, and
// gives their histories to package proof.
//
// Everything that happens follows from a [Plan], and a plan from its seed. Time is that of a testing/synctest bubble, so a history
// of some minutes takes about a millisecond. Of what runs inside, only the network, the clocks and the work are made up: clients
// and store are those that users get.
//
// A replica's own clock is the bubble's. That it runs fast or slow, or stands still in a suspend, is shown to it as it would notice:
// the leases that the store grants it end sooner or later than its clock says. So each replica has its own clock against
// the store, although all share a bubble. In the histories of [DrawClockless] the store has no clock, and each replica observes leases by its own.
package sim
