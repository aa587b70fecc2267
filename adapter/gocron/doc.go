// Package gocronadapter provides the interfaces with which schedulers of github.com/go-co-op/gocron/v2 work together:
// gocron.Locker and gocron.Elector.
//
// Gocron passes no scheduled time to either of them, so a run has no identity that replicas could agree on. A
// soloist.Job that soloist.Client.Run runs has one: its scheduled time, which the store records. Prefer it for new jobs.
package gocronadapter
