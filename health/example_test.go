package health_test

import (
	"net/http"

	"github.com/soloist-dev/soloist/health"
	"github.com/soloist-dev/soloist/store/memstore"
)

func Example() {
	s := memstore.New() // or the store of your client
	mux := http.NewServeMux()
	mux.Handle("/healthz", health.Live())
	mux.Handle("/readyz", health.Ready(health.Options{}, health.Store(s)))
}
