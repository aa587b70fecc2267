// Package riveradapter inserts one job of github.com/riverqueue/river for each scheduled time of a soloist.Job (Periodic), and
// works each of River's jobs once (Once).
//
// River inserts periodic jobs on its leader. It skips a time at which no process leads, and a new leader may insert a job for a
// time that has one. A soloist.Job records each scheduled time; in the database that is also River's, the record and the
// inserted job commit together.
package riveradapter
