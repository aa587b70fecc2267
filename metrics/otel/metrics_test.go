package oteltraces_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/soloist-dev/soloist"
	prommetrics "github.com/soloist-dev/soloist/metrics/prometheus"
	"github.com/soloist-dev/soloist/store/memstore"
)

// The metrics of a client reach OpenTelemetry through the bridge from Prometheus.
func Example_metrics() {
	metrics, registry := prommetrics.New(prommetrics.Options{}), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	reader := metric.NewManualReader( // in a program, a PeriodicReader with the exporter of OTLP
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry))))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()

	client, err := soloist.New(memstore.New(), soloist.Config{Observe: metrics.Observe})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error { return nil }); err != nil {
		log.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "soloist_wait_duration_seconds" {
			fmt.Println(m.Name, m.Data.(metricdata.Histogram[float64]).DataPoints[0].Count)
		}
	}

	// Output:
	// soloist_wait_duration_seconds 1
}

// TestMetrics: OpenTelemetry has each metric that Prometheus has, with its labels, buckets and values.
func TestMetrics(t *testing.T) {
	metrics, registry := prommetrics.New(prommetrics.Options{}), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	client, err := soloist.New(memstore.New(), soloist.Config{Observe: metrics.Observe})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	err = client.Run(ctx, soloist.Job{Name: "import", Schedule: soloist.Every(time.Millisecond), Do: func(context.Context, soloist.Run) error { stop(); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d in %d buckets", h.GetSampleCount(), len(h.GetBucket()))
			}
			want[series(f.GetName(), labels)] = value
		}
	}
	var all metricdata.ResourceMetrics
	reader := metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry))))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { _ = provider.Shutdown(background) }()
	if err := reader.Collect(background, &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			maps.Copy(got, valuesOf(t, m))
		}
	}
	if !maps.Equal(got, want) || len(want) < 40 {
		t.Errorf("got %d series:\n%s\nwant %d:\n%s", len(got), listed(got), len(want), listed(want))
	}
}

// valuesOf returns the values of a metric of OpenTelemetry by series.
func valuesOf(t *testing.T, m metricdata.Metrics) map[string]string {
	t.Helper()
	values := map[string]string{}
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			values[series(m.Name, labelsOf(p.Attributes.ToSlice()))] = fmt.Sprint(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			values[series(m.Name, labelsOf(p.Attributes.ToSlice()))] = fmt.Sprint(p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			values[series(m.Name, labelsOf(p.Attributes.ToSlice()))] = fmt.Sprintf("%d in %d buckets", p.Count, len(p.Bounds))
		}
	default:
		t.Errorf("%s is a %T", m.Name, data)
	}
	return values
}

func labelsOf(attrs []attribute.KeyValue) map[string]string {
	labels := map[string]string{}
	for _, a := range attrs {
		labels[string(a.Key)] = a.Value.AsString()
	}
	return labels
}

func series(name string, labels map[string]string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, " %s=%s", k, labels[k])
	}
	return b.String()
}

func listed(values map[string]string) string {
	var lines []string
	for s, v := range values {
		lines = append(lines, s+": "+v)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
