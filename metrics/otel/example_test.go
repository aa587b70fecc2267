package oteltraces_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/soloist-dev/soloist"
	oteltraces "github.com/soloist-dev/soloist/metrics/otel"
	"github.com/soloist-dev/soloist/store/memstore"
)

func Example() {
	exporter := tracetest.NewInMemoryExporter() // in a program, that of OTLP
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	traces := oteltraces.New(provider) // or otel.GetTracerProvider()

	client, err := soloist.New(memstore.New(), soloist.Config{
		Observe: traces.Observe, Middleware: []soloist.Middleware{traces.Middleware},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error { return nil }); err != nil {
		log.Fatal(err)
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}

	// Output:
	// acquire lock
	// run lock
	// hold lock
}
