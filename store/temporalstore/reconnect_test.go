package temporalstore

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// TestConnectsSoonAfterALongOutage: a store by a URL tries to connect every two seconds or so, however long there has
// been no server.
func TestConnectsSoonAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, err := parseURL("temporal://127.0.0.1:7233/default")
		if err != nil {
			t.Fatal(err)
		}
		var tries []time.Time
		conn, err := grpc.NewClient("dns:///"+to.host, append(to.options(), grpc.WithContextDialer(
			func(context.Context, string) (net.Conn, error) {
				tries = append(tries, time.Now())
				return nil, errors.New("connection refused")
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect()
		time.Sleep(10 * time.Minute)
		_ = conn.Close()
		synctest.Wait()
		n := len(tries)
		if n < 2 {
			t.Fatalf("it has tried to connect %d times in ten minutes", n)
		}
		wait, since := tries[n-1].Sub(tries[n-2]), time.Since(tries[n-1])
		if wait < time.Second || wait > 3*time.Second || since > 3*time.Second {
			t.Errorf("after %d times it waited for %v, and then tried %v ago; want about two seconds", n-1, wait, since)
		}
	})
}
