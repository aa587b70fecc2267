// Package temporalstore keeps leases in workflow executions of Temporal.
//
// Each name has one execution, whose workflow ID is made of the name. No worker runs it: its history is a log. A write is a signal that names the
// write that it replaces. Temporal puts the signals of an execution into one order, and of all writes that replace the same one the first in that
// order takes effect. So everybody who reads the history knows the same record, and Temporal compares and sets. Package casstore implements
// leases, tokens and forgetting on that, without any clock: a lease has expired when its name's history has not changed for its whole TTL, as observed by
// the process that wants the name. So a process that has just started waits for a whole TTL before it takes over from a dead one.
//
// A history that has grown long is continued as new: the record is the input of the next run. Temporal refuses that if a signal has come in between.
//
// The package needs Temporal's API and gRPC, and no SDK. A client of the SDK is given to [New] as it is.
package temporalstore
