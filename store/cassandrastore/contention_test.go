package cassandrastore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// TestContendedWrites: what a row says, when it is read after a write whose outcome Cassandra could not tell.
func TestContendedWrites(t *testing.T) {
	unknown := unsure("writing", &gocql.RequestErrCASWriteUnknown{})
	claim := casstore.Change{Name: "n", Version: "v1 v0", Record: &casstore.Record{Holder: "a", Token: 5, TTL: time.Minute, Write: "mine"}}
	first := casstore.Change{Name: "n", Record: claim.Record}
	extension := casstore.Change{Name: "n", Version: "v1 v0", Record: &casstore.Record{Holder: "a", Token: 4, TTL: time.Minute, State: []byte("s"), Write: "mine"}}
	release := casstore.Change{Name: "n", Version: "v1 v0", Record: &casstore.Record{Holder: "a", Token: 5, Released: true, Write: "mine"}}
	forget := casstore.Change{Name: "n", Version: "v1 v0"}
	const longAgo = "w9 w8 w7 w6 w5 w4 w3 w2 w1"
	for _, test := range []struct {
		rule  string
		write casstore.Change
		now   string
		again bool
		want  error // nil if it took effect
	}{
		{"nothing has changed", claim, "v1 v0", true, store.ErrUnknown},
		{"there is still no row", first, "", true, store.ErrUnknown},
		{"the claim is there", claim, "mine v1 v0", false, nil},
		{"the claim is there, and was released since", claim, "w1 mine v1 v0", false, nil},
		{"another claim is there", claim, "w1 v1 v0", false, casstore.ErrConflict},
		{"another first claim is there", first, "w2 w1", false, casstore.ErrConflict},
		{"others have written since another first claim", first, "w8 w7 w6 w5 w4 w3 w2 w1", false, casstore.ErrConflict},
		{"too many have written since a first claim", first, longAgo, false, store.ErrUnknown},
		{"too many have written since", claim, longAgo, false, store.ErrUnknown},
		{"another process has extended the lease too often since", extension, longAgo, false, store.ErrUnknown},
		{"the release is there", release, "mine v1 v0", false, nil},
		{"a claim came after the release", release, "w1 mine v1 v0", false, nil},
		{"a claim came instead of the release", release, "w1 v1 v0", false, casstore.ErrConflict},
		{"too many have written since the release", release, longAgo, false, store.ErrUnknown},
		{"the released row was forgotten", release, "", false, store.ErrUnknown},
		{"the released row was forgotten, and another one made", release, "w2 w1", false, store.ErrUnknown},
		{"the row has gone", forget, "", false, nil},
		{"the row was forgotten, and another one made", forget, "w1", false, store.ErrUnknown},
		{"a claim came instead of forgetting", forget, "w1 v1 v0", false, casstore.ErrConflict},
	} {
		result, again := settle(test.write, casstore.Item{Name: "n", Version: test.now}, unknown)
		if again != test.again || !errors.Is(result.Err, test.want) {
			t.Errorf("%s: got %+v, %v, want %v, %v", test.rule, result, again, test.want, test.again)
		}
		if result.Err == nil && test.write.Record != nil && result.Version != versionAfter(test.write) {
			t.Errorf("%s: the version is %q", test.rule, result.Version)
		}
	}
}

// TestReconnection: a request that was not sent, because the driver has lost its connections, waits for another one, but not for long. One that was sent is not repeated.
func TestReconnection(t *testing.T) {
	none, broken := unsure("writing", gocql.ErrNoConnections), unsure("writing", gocql.ErrConnectionClosed)
	for _, test := range []struct {
		rule  string
		until time.Duration // the driver has a connection again
		then  error
		want  error
	}{
		{"soon", 2 * time.Second, nil, nil},
		{"soon, which breaks", 2 * time.Second, broken, broken},
		{"never", time.Hour, nil, none},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, sent := time.Now(), 0
			err := connected(t.Context(), func() error {
				if time.Since(begun) < test.until {
					return none
				}
				sent++
				return test.then
			})
			if !errors.Is(err, test.want) || sent > 1 || time.Since(begun) > reconnecting+2*longWait {
				t.Errorf("%s: got %v, sent %d times, after %v; want %v", test.rule, err, sent, time.Since(begun), test.want)
			}
		})
	}
}

// TestVersions: a version names the write that made it and some before it, and no more.
func TestVersions(t *testing.T) {
	version := ""
	for i := range 20 {
		version = versionAfter(casstore.Change{Version: version, Record: &casstore.Record{Write: string(rune('a' + i))}})
	}
	if want := "t s r q p o n m l"; version != want {
		t.Errorf("got %q, want %q", version, want)
	}
}
