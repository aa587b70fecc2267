// Package asynqadapter runs tasks of github.com/hibiken/asynq once: Periodic enqueues one task for each scheduled time of a
// job, whichever replica does it, and Once processes each task once.
//
// Asynq's own Scheduler enqueues on every replica that runs one, and its option Unique is a lock that ends after a time.
package asynqadapter
