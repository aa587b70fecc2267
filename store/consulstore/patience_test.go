package consulstore

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// A transport replies to nothing. It tells for how long it was to wait.
type transport struct{ asked, patience time.Duration }

// RoundTrip implements http.RoundTripper.
func (r *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	until, _ := request.Context().Deadline()
	r.patience = time.Until(until)
	r.asked, _ = time.ParseDuration(request.URL.Query().Get("wait"))
	return nil, errors.New("no reply")
}

// TestQueryOutlastsConsul: the query of a watch has longer than Consul may wait before it replies that nothing has changed, which is a sixteenth more than it is
// asked for. Otherwise each watch of a quiet name would be lost.
func TestQueryOutlastsConsul(t *testing.T) {
	s, err := New(Config{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var r transport
	s.backend.http.Transport = &r
	begun := time.Now()
	_, _, err = s.backend.block(t.Context(), "a", 7)
	took := time.Since(begun)
	if longest := r.asked + r.asked/16; err == nil || r.asked == 0 || r.patience+took <= longest {
		t.Errorf("Consul is asked to wait for %v, and may wait for %v, and the query has %v (%v)", r.asked, longest, r.patience, err)
	}
}
