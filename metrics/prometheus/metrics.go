package prommetrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soloist-dev/soloist"
)

// Options configure New. The zero value is valid.
type Options struct {
	// Task returns the value of the label "task" for the name of a job. Set it if the program makes jobs whose number has no bound, for
	// example one for each customer: each value has about 40 series that remain until the process ends. It is called for each event of a
	// run, from several goroutines. The default is the name itself.
	Task func(job string) string
}

// A Metrics turns the events of clients into metrics. Use it as Config.Observe of a client, and register it with a prometheus.Registerer.
// Several clients of a process can share one; their values are added. It is safe for concurrent use.
type Metrics struct {
	task func(job string) string
	all  []prometheus.Collector

	runs        *prometheus.CounterVec
	runDuration *prometheus.HistogramVec
	startDelay  *prometheus.HistogramVec
	missed      *prometheus.CounterVec
	lastSuccess *prometheus.GaugeVec
	lastFailure *prometheus.GaugeVec
	lastMissed  *prometheus.GaugeVec

	held     *prometheus.GaugeVec
	acquires *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	lost     *prometheus.CounterVec

	requests  *prometheus.HistogramVec
	batchSize *prometheus.HistogramVec
}

// kindInternal is the kind of leases that a client needs itself: that of its replica, and those of changes by an administrator.
const kindInternal soloist.Kind = "internal"

// The labels.
const (
	labelTask    = "task" // not "job": Prometheus gives every series a label of that name
	labelKind    = "kind"
	labelOutcome = "outcome"
	labelCause   = "cause"
	labelVerb    = "verb"
)

// The values of labels that are known beforehand.
var (
	askedFor        = []soloist.Kind{soloist.KindLock, soloist.KindLeader, soloist.KindPermit, soloist.KindElement} // by callers
	others          = []soloist.Kind{soloist.KindJob, kindInternal}
	runOutcomes     = []string{soloist.OutcomeOK, soloist.OutcomeFailed, soloist.OutcomePanicked, soloist.OutcomeLost, soloist.OutcomeInterrupted}
	acquireOutcomes = []string{acquireGranted, acquireHeld, acquireDone, acquireUnknown, acquireCanceled, acquireError}
	lossCauses      = []string{soloist.LossUnconfirmed, soloist.LossGone, soloist.LossOverran, soloist.LossClosed}
)

// New returns metrics that have counted nothing.
func New(opts Options) *Metrics {
	m := &Metrics{task: opts.Task}
	if m.task == nil {
		m.task = func(job string) string { return job }
	}
	m.runs = m.counter("runs_total", "Attempts at runs of jobs that ended, by outcome.", labelTask, labelOutcome)
	m.runDuration = m.histogram("run_duration_seconds", "Duration of attempts at runs.", runBuckets, labelTask)
	m.startDelay = m.histogram("start_delay_seconds", "Time from the scheduled time of a run, or the request for it, to its first attempt.", delayBuckets, labelTask)
	m.missed = m.counter("missed_runs_total", "Scheduled times that were missed and are not run.", labelTask)
	m.lastSuccess = m.gauge("last_success_timestamp_seconds", "When a run ended with success last, by the clock of this process.", labelTask)
	m.lastFailure = m.gauge("last_failure_timestamp_seconds", "When an attempt at a run failed or panicked last, by the clock of this process.", labelTask)
	m.lastMissed = m.gauge("last_missed_timestamp_seconds", "When missed times were counted last, by the clock of this process.", labelTask)
	m.held = m.gauge("leases_held", "Leases that this process holds.", labelKind)
	m.acquires = m.counter("acquire_total", "Leases that were asked for, by outcome.", labelKind, labelOutcome)
	m.waits = m.histogram("wait_duration_seconds", "Time from the call for a lease to its grant or refusal.", waitBuckets, labelKind)
	m.lost = m.counter("lease_lost_total", "Leases that were lost, by cause.", labelKind, labelCause)
	m.requests = m.histogram("store_request_duration_seconds", "Duration of requests to the store.", requestBuckets, labelVerb, labelOutcome)
	m.batchSize = m.histogram("store_batch_size", "Names in a request to the store.", batchBuckets, labelVerb)
	m.begin()
	return m
}

// begin makes the series whose labels are known, with the value 0: increase() does not see the first value of a series that appears with it.
func (m *Metrics) begin() {
	for _, kind := range slices.Concat(askedFor, others) {
		m.held.WithLabelValues(string(kind))
		m.acquires.WithLabelValues(string(kind), acquireGranted)
		for _, cause := range lossCauses {
			m.lost.WithLabelValues(string(kind), cause)
		}
	}
	for _, kind := range askedFor { // the claims of others that are refused are no events
		for _, outcome := range acquireOutcomes {
			m.acquires.WithLabelValues(string(kind), outcome)
		}
	}
}

// beginTask makes the counters of a task, as begin does.
func (m *Metrics) beginTask(task string) {
	m.missed.WithLabelValues(task)
	for _, outcome := range runOutcomes {
		m.runs.WithLabelValues(task, outcome)
	}
}

// taskOf returns the label of a job. Prometheus refuses text that is not UTF-8.
func (m *Metrics) taskOf(job string) string { return strings.ToValidUTF8(m.task(job), "�") }

// namespace is what the name of every metric begins with.
const namespace = "soloist"

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return with(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels))
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return with(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels))
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return with(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: slices.Clone(buckets)}, labels))
}

// with adds a collector to those of m.
func with[C prometheus.Collector](m *Metrics, c C) C {
	m.all = append(m.all, c)
	return c
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(to)
	}
}
