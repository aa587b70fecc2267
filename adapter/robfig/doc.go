// Package robfig connects github.com/robfig/cron/v3 with soloist. There are two ways:
//
//   - Parse and Schedule return the schedule of a robfig spec for a soloist.Job. Soloist's Runner runs it: each
//     scheduled time on one replica of the fleet. This is the recommended way.
//   - Singleton returns a cron.JobWrapper. cron.Cron continues to decide when a job is due on each replica, and a lock
//     prevents the others from running it meanwhile and for a minimum time. Cron passes no scheduled time to a wrapper,
//     so a run has no identity that replicas could agree on: whether a time has been run already can only be concluded
//     from how long ago the last run began.
package robfig
