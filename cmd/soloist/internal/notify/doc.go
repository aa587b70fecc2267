// Package notify sends notices of jobs that fail, or do not run, to people: by a webhook or a command.
//
// What has happened is read from the records of the jobs, so that a notice is sent whichever program ran the job, and although the process that
// saw it ends. For each target the fleet has one leader that reads the jobs, and each notice is an element that is processed once: a notice is
// repeated only if the process that sent it dies, or loses the store, before it could record that.
package notify
