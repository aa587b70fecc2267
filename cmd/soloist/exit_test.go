package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

func TestExitCodes(t *testing.T) {
	for _, row := range []struct {
		want int
		err  error
	}{
		{0, nil},
		{exitUsage, &soloist.InvalidError{What: "name"}},
		{exitUsage, soloist.ErrNoJob},
		{exitUsage, soloist.ErrNoElement},
		{exitUnavailable, errors.New("connection refused")},
		{exitFailed, &soloist.FailedError{}},
		{exitHeld, &soloist.HeldError{}},
		{exitHeld, soloist.ErrNotHeld},
		{exitHeld, soloist.ErrInUse},
		{exitHeld, soloist.ErrAllPaused},
		{exitLost, fmt.Errorf("releasing: %w", soloist.ErrOverran)},
		{exitDenied, fmt.Errorf("opening: %w", fs.ErrPermission)},
		{exitConfig, badConfig(errors.New("bad"))},
		{exitConfig, fmt.Errorf("opening: %w", store.ErrUnusable)},
		{exitConfig, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, // to wait does not help
		{42, &exit{code: 42}},
	} {
		want, err := row.want, row.err
		if err != nil {
			err = fmt.Errorf("in between: %w", err)
		}
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// Only a run that has ended well is told by 0: one can fail without an exit code, and in spite of one.
func TestExitOfARun(t *testing.T) {
	well, three, most, above, below := 0, 3, 255, 256, -1
	for _, row := range []struct {
		outcome string
		code    *int
		want    int
	}{
		{soloist.OutcomeOK, nil, 0}, {soloist.OutcomeOK, &well, 0}, {soloist.OutcomeFailed, &three, three}, {soloist.OutcomeFailed, nil, exitFailed},
		{soloist.OutcomeFailed, &well, exitFailed}, {soloist.OutcomeLost, nil, exitFailed}, {soloist.OutcomeAbandoned, nil, exitFailed}, {soloist.OutcomeInterrupted, &well, exitFailed},
		{soloist.OutcomeFailed, &most, most}, {soloist.OutcomeFailed, &above, exitFailed}, {soloist.OutcomeFailed, &below, exitFailed}, // a process ends with a byte
	} {
		if got := exitCode(exitOfRun("x", soloist.RunRecord{Outcome: row.outcome, ExitCode: row.code})); got != row.want {
			t.Errorf("%s: %d, want %d", row.outcome, got, row.want)
		}
	}
}

// What is shown of a URL has no secret in it, also if the URL is wrong and no store would take it.
func TestShownURLs(t *testing.T) {
	for text, want := range map[string]string{
		"redis://user:canary@host:1/0?prefix=x&password=canary":     "redis://host:1/0?prefix=x",
		"etcd://user:canary@a,user:canary@b:2379/prefix":            "etcd://b:2379/prefix",
		"cassandra://a:9042,b:9042/k":                               "cassandra://a:9042,b:9042/k",
		"sqlite:/var/lib/a@b.db":                                    "sqlite:/var/lib/a@b.db",
		"sqlite:///var/lib/a.db":                                    "sqlite:///var/lib/a.db",
		"memory:":                                                   "memory:",
		"postgres://user:canary?x@host/db":                          "postgres:",
		"postgres://user:12?tls=canary@host/db":                     "postgres:",
		"mysql:root:canary@host/db":                                 "mysql:",
		"redis::canary@host":                                        "redis:",
		"postgres://user:canary/host/db":                            "postgres:", // the @ is missing
		"postgres://user:canary#host/db":                            "postgres:",
		"user:canary@host":                                          "…",
		"canary":                                                    "…",
		"move:old-decides redis://:canary@a mysql:root:canary@b/db": "move:old-decides redis://a mysql:",
	} {
		if got := (source{text: text}).shown(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
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
		"mysql:root:canary@host/db":          true, // the // is missing
		"redis::canary@host":                 true,
		"ci:deploy@host":                     false, // the name of a replica
		"sqlite:a:b@c.db":                    false,
	} {
		if got := hasPassword(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
