// Package prommetrics counts what a soloist client does, for Prometheus.
//
// A Metrics is an observer of clients (soloist.Config.Observe) and a prometheus.Collector. No metric has a name that users of a program choose
// freely, such as that of a lock or the ID of an element: the only names are those of jobs.
package prommetrics
