package prommetrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler returns a handler for /metrics that has the metrics of gather, such as a *prometheus.Registry with which m is registered. At most
// four requests are served at a time, each within 10 s; more get the status 503.
func Handler(gather prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gather, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
