// Package storetest checks that a store keeps the laws of package store, as testing/slogtest does for handlers and testing/fstest for file
// systems.
//
// A store's tests call [Run]:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open:   func(t testing.TB) store.Store { … },
//			Reopen: func(t testing.TB, s store.Store) store.Store { … },
//		})
//	}
//
// Each law is a subtest. When a law is broken, the failure has the law as a sentence, the steps that were taken, the result, and the result
// that the law wants. A law about an optional interface is skipped if the store does not have the interface, or returns errors.ErrUnsupported from
// it. A law about several handles is skipped if the harness has no Reopen.
//
// The laws use nothing but package store. So the same laws judge a map in memory and a cluster of servers.
//
// # Time
//
// Some laws wait for a lease to end. They use package time only. So a store that keeps time in this process can be tested in a testing/synctest
// bubble, where waiting takes no time, with one call of [Check] per law. In real time a law measures how long its steps took, and tries again with a
// longer TTL if they took too long to prove anything: a slow machine makes the tests slower and never red.
package storetest
