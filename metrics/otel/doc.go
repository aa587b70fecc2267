// Package oteltraces makes OpenTelemetry spans of what a soloist client does.
//
// A Traces is an observer and a middleware of a client (soloist.Config.Observe and Middleware). Its spans are in the trace of the caller's
// context. It keeps nothing between events. For metrics, a bridge of OpenTelemetry takes
// those of the module metrics/prometheus: see the example.
package oteltraces
