package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// The exit codes beside those of the child. Where it has one they are those of sysexits.h.
const (
	exitUsage       = 64
	exitUnavailable = 69
	exitFailed      = 70
	exitHeld        = 75
	exitLost        = 76
	exitDenied      = 77
	exitConfig      = 78
)

// An exit ends the command with a code, and with a message if err is not nil.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

// badConfig is the error of a mistake in the configuration. A file that may not be read is denied, and no mistake.
func badConfig(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &exit{exitDenied, err}
	}
	return &exit{exitConfig, err}
}

// exitCode is the code that reports an error.
func exitCode(err error) int {
	var ended *exit
	var bad *store.InvalidError
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.code
	case errors.Is(err, soloist.ErrLost):
		return exitLost
	case errors.Is(err, soloist.ErrHeld), errors.Is(err, soloist.ErrNotHeld), errors.Is(err, soloist.ErrInUse), errors.Is(err, soloist.ErrAllPaused):
		return exitHeld
	case errors.Is(err, soloist.ErrFailed):
		return exitFailed
	case errors.As(err, &bad):
		return exitUsage
	case errors.Is(err, soloist.ErrNoJob), errors.Is(err, soloist.ErrNoElement):
		return exitUsage
	case errors.Is(err, fs.ErrPermission):
		return exitDenied
	case errors.Is(err, store.ErrUnusable), errors.As(err, &untrusted):
		return exitConfig
	}
	return exitUnavailable
}
