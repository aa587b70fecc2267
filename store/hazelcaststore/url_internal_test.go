package hazelcaststore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// TestClientsOfURLs: each part of a URL gets to where the client library, or the connections to the CP Subsystem, take it from.
func TestClientsOfURLs(t *testing.T) {
	for url, check := range map[string]func(cluster.Config) bool{
		"hazelcast://u:p@a:5702,b/m?cluster=prod&minmembers=2&unisocket=true&dialtimeout=3s&heartbeattimeout=20s": func(c cluster.Config) bool {
			return c.Name == "prod" && c.Unisocket && slices.Equal(c.Network.Addresses, []string{"a:5702", "b:5701"}) && !c.Network.SSL.Enabled &&
				c.Security.Credentials == (cluster.CredentialsConfig{Username: "u", Password: "p"}) &&
				c.Network.ConnectionTimeout == types.Duration(3*time.Second) && c.ConnectionStrategy.Timeout == types.Duration(3*time.Second) &&
				c.HeartbeatTimeout == types.Duration(20*time.Second) && c.HeartbeatInterval == types.Duration(4*time.Second)
		},
		"hazelcast://a": func(c cluster.Config) bool {
			return c.Name == "dev" && !c.Unisocket && c.Security.Credentials == (cluster.CredentialsConfig{}) &&
				c.Network.ConnectionTimeout == types.Duration(5*time.Second) && c.HeartbeatTimeout == types.Duration(10*time.Second)
		},
		"hazelcast://a:1,a:2?tls=true": func(c cluster.Config) bool {
			return c.Network.SSL.Enabled && c.Network.SSL.TLSConfig().ServerName == "a"
		},
		"hazelcast://a,b?tls=true&servername=c":          func(c cluster.Config) bool { return c.Network.SSL.TLSConfig().ServerName == "c" },
		"hazelcast://a,b?tls=true&insecure=true&cp=true": func(c cluster.Config) bool { return c.Network.SSL.TLSConfig().InsecureSkipVerify },
	} {
		target, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if c := target.client(); !check(c.Cluster) || c.Logger.Level != logger.OffLevel {
			t.Errorf("%s: got %+v", url, c)
		}
	}
	s, err := OpenURL(context.Background(), "hazelcast://a/m?minmembers=2")
	if err != nil {
		t.Fatal(err)
	}
	if s.backend.cfg != (Config{Map: "m", MinMembers: 2}) {
		t.Errorf("the configuration is %+v", s.backend.cfg)
	}
	if s, err = OpenURL(context.Background(), "hazelcast://a/m?cp=true"); err != nil || s.references == nil || s.references.prefix != "m:" {
		t.Errorf("with CP: %+v, %v", s, err)
	}
}

// TestSettingsThatAreOverruled: a client does not repeat requests and does not connect anew by itself, and keeps what else its
// configuration has it. How long an attempt to connect takes, and what is between two, has a default.
func TestSettingsThatAreOverruled(t *testing.T) {
	var given hazelcast.Config
	given.ClientName = "billing"
	given.SetLabels("one")
	given.Cluster.Name = "prod"
	given.Cluster.RedoOperation = true
	given.Cluster.InvocationTimeout = types.Duration(time.Minute)
	given.Cluster.ConnectionStrategy.ReconnectMode = cluster.ReconnectModeOn
	s, err := New(given, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := s.backend.connector.client
	if c.Cluster.RedoOperation || c.Cluster.InvocationTimeout != types.Duration(invocationTimeout) || c.Cluster.ConnectionStrategy.ReconnectMode != cluster.ReconnectModeOff {
		t.Errorf("the client repeats, or connects anew: %+v", c.Cluster)
	}
	strategy := c.Cluster.ConnectionStrategy
	if s.backend.connector.within() != connectTimeout || strategy.Retry.InitialBackoff != types.Duration(100*time.Millisecond) || strategy.Retry.Multiplier != 2 {
		t.Errorf("it connects by %+v", strategy)
	}
	if c.ClientName != "billing" || !slices.Equal(c.Labels, []string{"one"}) || c.Cluster.Name != "prod" {
		t.Errorf("it has lost what it is: %+v", c)
	}
	given.Cluster.ConnectionStrategy.Timeout = types.Duration(time.Hour)
	given.Cluster.ConnectionStrategy.Retry = cluster.ConnectionRetryConfig{InitialBackoff: types.Duration(time.Second), MaxBackoff: types.Duration(time.Minute), Multiplier: 3}
	if s, err = New(given, Config{}); err != nil {
		t.Fatal(err)
	}
	if strategy := s.backend.connector.client.Cluster.ConnectionStrategy; s.backend.connector.within() != time.Hour || strategy.Retry.Multiplier != 3 || strategy.Retry.MaxBackoff != types.Duration(time.Minute) {
		t.Errorf("it connects by %+v, and not as it is configured", strategy)
	}
}
