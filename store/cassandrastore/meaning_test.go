package cassandrastore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// TestWhatErrorsMean: what is reported of an error of the driver, and whether a write that it is the answer to has surely had no effect.
func TestWhatErrorsMean(t *testing.T) {
	authority := x509.UnknownAuthorityError{}
	for _, test := range []struct {
		err     error
		refused bool
		is      error
		says    string
	}{
		{gocql.ErrNoConnections, true, nil, ""},
		{gocql.ErrSessionClosed, true, nil, ""},
		{gocql.ErrNoStreams, true, nil, ""},
		{&gocql.RequestErrUnauthorized{}, true, fs.ErrPermission, "GRANT SELECT, MODIFY on the table"},
		{&gocql.RequestErrCredentials{}, true, fs.ErrPermission, "check the user and the password"},
		{&gocql.RequestErrSyntax{}, true, nil, ""},
		{&gocql.RequestErrInvalid{}, true, nil, ""},
		{&gocql.RequestErrConfig{}, true, nil, ""},
		{&gocql.RequestErrBootstrapping{}, true, nil, ""},
		{&gocql.RequestErrUnavailable{Consistency: gocql.Serial, Required: 2, Alive: 1}, true, nil, "of 2 copies that must decide 1 can be reached"},
		{&gocql.RequestErrUnavailable{Consistency: gocql.LocalSerial, Required: 2, Alive: 1}, true, nil, "of 2 copies that must decide 1 can be reached"},
		{&gocql.RequestErrUnavailable{Consistency: gocql.Quorum}, false, nil, "start the nodes"},
		{&gocql.RequestErrUnavailable{Consistency: gocql.LocalQuorum}, false, nil, "start the nodes"},
		{&gocql.RequestErrOverloaded{}, false, nil, ""},
		{&gocql.RequestErrTruncate{}, false, nil, ""},
		{&gocql.RequestErrWriteTimeout{}, false, nil, ""},
		{&gocql.RequestErrWriteFailure{}, false, nil, ""},
		{&gocql.RequestErrReadTimeout{}, false, nil, ""},
		{&gocql.RequestErrReadFailure{}, false, nil, ""},
		{&gocql.RequestErrCASWriteUnknown{}, false, nil, ""},
		{gocql.ErrTimeoutNoResponse, false, nil, ""},
		{gocql.ErrConnectionClosed, false, nil, ""},
		{context.DeadlineExceeded, false, nil, ""},
		{errNoReply, false, nil, "has not said whether"},
		{errors.New("gocql: authentication required"), false, fs.ErrPermission, "cassandra://USER:PASSWORD@"},
		{errors.New("gocql: failed to resolve any of the provided hostnames"), false, nil, "check their names"},
		{errors.New("gocql: no hosts: host was filtered"), false, nil, "datacenter= names"},
		{errors.New("dial tcp: connection refused"), false, nil, "no server listens there"},
		{fmt.Errorf("tls: failed to verify certificate: %w", authority), false, authority, "see cafile and servername"},
		{errors.New("tls: first record does not look like a TLS handshake"), false, nil, "leave out tls=true"},
		{errors.New("gocql: unable to discover protocol version"), false, nil, "write tls=true"},
	} {
		err := unsure("writing", test.err)
		if errors.Is(err, store.ErrUnknown) == test.refused || !errors.Is(err, test.err) || test.is != nil && !errors.Is(err, test.is) ||
			!strings.Contains(err.Error(), "cassandrastore: writing: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%T %v: got %v; want it unknown %t, %v, and to say %q", test.err, test.err, err, !test.refused, test.is, test.says)
		}
		if err := wrap("reading", test.err); errors.Is(err, store.ErrUnknown) || errors.Is(err, fs.ErrPermission) != (test.is == fs.ErrPermission) { //nolint:errorlint // the one of the table
			t.Errorf("reading: %v", err)
		}
	}
	for message, about := range map[string]bool{
		"Keyspace 'k' does not exist": true, "unconfigured table t": true, "Undefined column name mark": true, "undefined column name mark": true,
		"Unknown identifier mark": true, "unknown identifier mark": true, "Invalid null value": false, "": false,
	} {
		if aboutSchema(message) != about {
			t.Errorf("that %q is about the schema: %t, want %t", message, !about, about)
		}
	}
}

// TestRows: a row that lacks a column was written by something else, which is reported with the column's name, and one that has all has what was written.
func TestRows(t *testing.T) {
	when, later := time.UnixMilli(1_000_000_000_001), time.UnixMilli(2_000_000_000_002)
	complete := func() (row, map[string]func(*row)) {
		name, holder, version := "n", "h", "w2 w1"
		token, mark, ttl := int64(3), int64(4), int64(5*time.Second)
		state, yes, sure := []byte("state"), true, true
		return row{name: &name, holder: &holder, version: &version, token: &token, mark: &mark, ttl: &ttl, state: &state, released: &yes, unsure: &sure, granted: &when, forget: &later},
			map[string]func(*row){
				"holder": func(r *row) { r.holder = nil }, "version": func(r *row) { r.version = nil }, "fencing_token": func(r *row) { r.token = nil },
				"mark": func(r *row) { r.mark = nil }, "ttl_ns": func(r *row) { r.ttl = nil }, "state": func(r *row) { r.state = nil },
				"released": func(r *row) { r.released = nil }, "unsure": func(r *row) { r.unsure = nil }, "granted_at": func(r *row) { r.granted = nil }, "forget_at": func(r *row) { r.forget = nil },
			}
	}
	r, without := complete()
	item := r.item()
	rec := item.Record
	if item.Err != nil || item.Name != "n" || item.Version != "w2 w1" || rec.Holder != "h" || rec.Token != 3 || rec.Mark != 4 || rec.TTL != 5*time.Second || string(rec.State) != "state" ||
		!rec.Released || !rec.Unsure || rec.Write != "w2" || !rec.Granted.Equal(when) || !rec.Forget.Equal(later) {
		t.Errorf("got %+v", item)
	}
	if r.forget = &never; !r.item().Record.Forget.IsZero() {
		t.Errorf("one that is not to be forgotten: %+v", r.item())
	}
	for column, remove := range without {
		r, _ := complete()
		remove(&r)
		if item := r.item(); item.Name != "n" || !errors.Is(item.Err, errForeign) || !strings.Contains(item.Err.Error(), "no "+column+":") {
			t.Errorf("without %s: got %+v", column, item)
		}
	}
	if r.name = nil; !errors.Is(r.item().Err, errForeign) {
		t.Errorf("without a name: got %+v", r.item())
	}
	blank := "  "
	r, _ = complete()
	if r.version = &blank; !errors.Is(r.item().Err, errForeign) {
		t.Errorf("with a blank version: got %+v", r.item())
	}
	for _, of := range []*casstore.Record{{Write: "w"}, {Write: "w", State: []byte("s"), Forget: later, Granted: when}} {
		v := values(casstore.Change{Name: "n", Record: of})
		state, stateful := v[3].([]byte)
		forget, timed := v[9].(time.Time)
		want := of.Forget
		if want.IsZero() {
			want = never
		}
		if !stateful || state == nil || string(state) != string(of.State) || !timed || !forget.Equal(want) {
			t.Errorf("%+v is written as %v", of, v)
		}
	}
}

// TestConfigurations: what a URL configures the driver to do, and which consistencies a configuration means.
func TestConfigurations(t *testing.T) {
	configured := func(url string) (*target, *gocql.ClusterConfig) {
		t.Helper()
		target, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		return target, target.cluster()
	}
	target, c := configured("cassandra://host/k")
	if c.ConnectTimeout != 5*time.Second || c.Timeout != 11*time.Second || c.WriteTimeout != 11*time.Second || c.ReconnectInterval != time.Second ||
		c.Authenticator != nil || c.SslOpts != nil || c.HostFilter != nil || len(c.Hosts) != 1 || c.Hosts[0] != "host:9042" || target.config != (Config{Keyspace: "k", Table: "soloist"}) {
		t.Errorf("a URL without options: %+v, %+v", target, c)
	}
	if target.config.serial() != gocql.Serial || target.config.quorum() != gocql.Quorum {
		t.Errorf("it reads at %v and lists at %v", target.config.serial(), target.config.quorum())
	}
	target, c = configured("cassandra://user:p%40ss@a:1,b/k?table=t&datacenter=dc&consistency=local_serial&dialtimeout=2s&timeout=3s&tls=true&servername=name")
	if c.ConnectTimeout != 2*time.Second || c.Timeout != 3*time.Second || c.WriteTimeout != 3*time.Second || c.HostFilter == nil || target.datacenter != "dc" ||
		len(c.Hosts) != 2 || c.Hosts[0] != "a:1" || c.Hosts[1] != "b:9042" || target.config != (Config{Keyspace: "k", Table: "t", Local: true}) {
		t.Errorf("a URL with all options: %+v, %+v", target, c)
	}
	if c.SslOpts == nil || !c.SslOpts.EnableHostVerification || c.SslOpts.Config.ServerName != "name" || c.SslOpts.Config.InsecureSkipVerify {
		t.Errorf("with TLS: %+v", c.SslOpts)
	}
	if a, ok := c.Authenticator.(gocql.PasswordAuthenticator); !ok || a.Username != "user" || a.Password != "p@ss" {
		t.Error("the user or the password is another one")
	}
	if target.config.serial() != gocql.LocalSerial || target.config.quorum() != gocql.LocalQuorum {
		t.Errorf("with local_serial it reads at %v and lists at %v", target.config.serial(), target.config.quorum())
	}
	if _, c = configured("cassandra://host/k?datacenter=dc&tls=true&insecure=true"); c.HostFilter != nil || c.SslOpts.EnableHostVerification {
		t.Errorf("with serial other datacenters are asked, too, and insecure=true checks nothing: %+v", c.SslOpts)
	}
	for name, good := range map[string]bool{
		"a": true, "Z_9": true, strings.Repeat("a", 48): true, strings.Repeat("a", 49): false, "9a": false, "_a": false, "a-b": false, `a"b`: false, "a\n": false,
	} {
		for what, cfg := range map[string]Config{"keyspace": {Keyspace: name}, "table": {Table: name}} {
			if _, err := cfg.filled(); good != (err == nil) || !good && (!errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), what)) {
				t.Errorf("a %s %q: %v; good: %t", what, name, err, good)
			}
		}
	}
	if cfg, err := (Config{}).filled(); err != nil || cfg.table() != `"soloist"."soloist"` {
		t.Errorf("without names: %s, %v", cfg.table(), err)
	}
}

// TestSights: what is wrong with a table, and what a replication is called.
func TestSights(t *testing.T) {
	good := func() sight {
		s := sight{replication: map[string]string{"class": "SimpleStrategy", "replication_factor": "3"}, columns: map[string]string{"another": "text"}, key: []string{"name"}}
		for name, kind := range columns {
			s.columns[name] = kind
		}
		return s
	}
	cfg := Config{Keyspace: "k", Table: "t"}
	if err := good().problem(cfg); err != nil {
		t.Errorf("a table that has one more column: %v", err)
	}
	for _, name := range []string{"name", "holder", "fencing_token", "mark", "state", "ttl_ns", "released", "unsure", "version", "granted_at", "forget_at"} {
		s := good()
		s.columns[name] = "double"
		other := s.problem(cfg)
		delete(s.columns, name)
		missing := s.problem(cfg)
		if !errors.Is(other, store.ErrSchema) || !strings.Contains(other.Error(), "column "+name+" is double, not "+columns[name]) ||
			!errors.Is(missing, store.ErrSchema) || !strings.Contains(missing.Error(), "column "+name+" is missing") {
			t.Errorf("%s: %v; %v", name, other, missing)
		}
	}
	for _, key := range [][]string{nil, {"holder"}, {"name", "holder"}} {
		s := good()
		if s.key = key; !errors.Is(s.problem(cfg), store.ErrSchema) {
			t.Errorf("the key %q: %v", key, s.problem(cfg))
		}
	}
	for _, test := range []struct {
		replication map[string]string
		text        string
		total       int
	}{
		{map[string]string{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "b": "2", "a": "3", "c": "0"}, "NetworkTopologyStrategy, a 3, b 2", 5},
		{map[string]string{"class": "SimpleStrategy", "replication_factor": "1"}, "SimpleStrategy, replication_factor 1", 1},
	} {
		each, total, err := sight{replication: test.replication}.copies()
		if text := describe(test.replication, each); err != nil || total != test.total || text != test.text {
			t.Errorf("got %q, %d copies, %v; want %q, %d", text, total, err, test.text, test.total)
		}
	}
	for _, bad := range []string{"-1", "3/1", ""} {
		if _, _, err := (sight{replication: map[string]string{"class": "SimpleStrategy", "replication_factor": bad}}).copies(); err == nil || !strings.Contains(err.Error(), "not a number of copies") {
			t.Errorf("%q copies: %v", bad, err)
		}
	}
	for version, linearizable := range map[string]bool{"3.11.19": false, "4.0.0": true, "4.0-beta1": true, "10.0": true, "": false, "x.1": false} {
		if (sight{version: version}).linearizable() != linearizable {
			t.Errorf("version %q is linearizable: %t, want %t", version, !linearizable, linearizable)
		}
	}
	if got := (sight{replication: map[string]string{"class": "EverywhereStrategy"}, durableWrites: true}).durable(); got.Answer != store.Unknown {
		t.Errorf("another strategy is durable: %+v", got)
	}
}
