package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/soloist-dev/soloist"
)

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		0:               nil,
		exitUsage:       &soloist.InvalidError{What: "name"},
		exitUnavailable: errors.New("connection refused"),
		exitFailed:      &soloist.FailedError{},
		exitHeld:        &soloist.HeldError{},
		exitLost:        fmt.Errorf("releasing: %w", soloist.ErrOverran),
		exitDenied:      fmt.Errorf("opening: %w", fs.ErrPermission),
		exitConfig:      badConfig(errors.New("bad")),
		42:              &exit{code: 42},
	} {
		if err != nil {
			err = fmt.Errorf("in between: %w", err)
		}
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestPasswordsInURLs(t *testing.T) {
	for text, want := range map[string]bool{
		"sqlite:/var/lib/x.db":               false,
		"redis://user@host":                  false,
		"redis://user:pw@host":               true,
		"postgres://host/db?password=pw":     true,
		"postgres://host/db?sslmode=off":     false,
		"mysql://host/?AuthToken=x":          true,
		"redis://user:%zz@host":              true,
		"sqlite:/with@sign.db":               false,
		"dynamodb://table?secret_key=canary": true,
		"cassandra://user:canary@a,b:9042/k": true,
		"hazelcast://user:canary@a,b:5701/m": true,
		"etcd://user:canary@a,b:2379/prefix": true,
		"nats://:canary@a,b:4222/bucket":     true,
		"consul://:canary@a,b:8500/prefix":   true,
		"consul://a/prefix?creds=/run/token": false,
		"zk://user:canary@a,b:2181/path":     true,
		"temporal://apikey:canary@a/space":   true,
	} {
		if got := hasPassword(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
