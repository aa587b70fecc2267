// Package live lets `soloist verify` work on real servers while these are killed, paused and cut off. The command brings the clients, which it
// kills, pauses and cuts off itself, and the judgement; the tests here bring the servers and what happens to them.
//
// Some runs must find violations: those on servers that forget. If they find none, the others have shown nothing.
package live
