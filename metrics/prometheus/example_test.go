package prommetrics_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soloist-dev/soloist"
	prommetrics "github.com/soloist-dev/soloist/metrics/prometheus"
	"github.com/soloist-dev/soloist/store/memstore"
)

func Example() {
	reg := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics := prommetrics.New(prommetrics.Options{})
	reg.MustRegister(metrics)
	mux := http.NewServeMux()
	mux.Handle("/metrics", prommetrics.Handler(reg))

	client, err := soloist.New(memstore.New(), soloist.Config{Observe: metrics.Observe})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(context.Background(), "close-month", func(context.Context, *soloist.Lease) error {
		show(mux, "soloist_leases_held")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// Output:
	// soloist_leases_held{kind="element"} 0
	// soloist_leases_held{kind="internal"} 0
	// soloist_leases_held{kind="job"} 0
	// soloist_leases_held{kind="leader"} 0
	// soloist_leases_held{kind="lock"} 1
	// soloist_leases_held{kind="permit"} 0
}

// show prints the series of a metric as Prometheus scrapes them.
func show(mux *http.ServeMux, metric string) {
	page := httptest.NewRecorder()
	mux.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), metric+"{") {
			fmt.Println(lines.Text())
		}
	}
}
