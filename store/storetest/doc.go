// Package storetest checks that a store keeps the laws of package store.
//
// The laws are one table. Each row has a name, a sentence and a check, and a store passes or breaks it as seen through
// package store alone, so the same rows judge a map in memory and a cluster of servers. A store's tests call [Run]:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open:   func(t testing.TB) store.Store { … },
//			Reopen: func(t testing.TB, s store.Store) store.Store { … },
//		})
//	}
//
// and read, for what is broken, the law, what was done, what came back and what should have.
//
// Waiting for a lease to end is the subject of some laws. They wait by package time only, so a store that keeps time
// in this process can be judged within a testing/synctest bubble, law by law, with [Check]. Judged by real time, a law
// measures how long its steps took and tries again with a longer TTL when they took too long to say anything.
package storetest
