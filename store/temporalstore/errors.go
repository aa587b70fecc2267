package temporalstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

// known returns an error of a request as package serviceerror has it. The SDK's connection has done so already.
func known(err error) error {
	var of serviceerror.ServiceError
	if err == nil || errors.As(err, &of) {
		return err
	}
	if s, ok := status.FromError(err); ok {
		return serviceerror.FromStatus(s)
	}
	return err
}

// wrap says what was being done, and gives errors of Temporal the meaning that they have for every store.
func wrap(doing string, err error) error {
	var missing *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("temporalstore: %s: %w: the namespace does not exist: make it with `temporal operator namespace create`, or name another one: %w",
			doing, store.ErrUnusable, err)
	case denied(err):
		return fmt.Errorf("temporalstore: %s: check the API key or certificate, and that it has the role writer in the namespace: %w: %w", doing, err, fs.ErrPermission)
	case code(err) == codes.ResourceExhausted && !busy(err):
		return fmt.Errorf("temporalstore: %s: Temporal refuses requests because there are too many: raise the limit of the namespace: %w", doing, err)
	case code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("temporalstore: %s: %w: %w", doing, err, context.DeadlineExceeded)
	case code(err) == codes.Canceled:
		return fmt.Errorf("temporalstore: %s: %w: %w", doing, err, context.Canceled)
	}
	for _, of := range connecting {
		if strings.Contains(err.Error(), of.says) {
			return fmt.Errorf("temporalstore: %s: %w: %s", doing, storeurl.Untrusted(err), of.fix)
		}
	}
	return fmt.Errorf("temporalstore: %s: %w", doing, err)
}

// connecting are what can be done about a connection that gRPC cannot make, by what it says.
var connecting = []struct{ says, fix string }{
	{"failed to verify certificate", "the server's certificate is not trusted, see cafile and servername"},
	{"does not look like a TLS handshake", "the server has no TLS at this address: leave out tls=true"},
	{"produced zero addresses", "the host of the store's URL has no address: check its name"},
	{"error reading server preface", "if the server has TLS at this address, write tls=true; else is it the address of Temporal's frontend?"},
}

// code returns the code of an error of Temporal.
func code(err error) codes.Code { return serviceerror.ToStatus(err).Code() }

// denied reports whether Temporal has refused a request because this client may not make it.
func denied(err error) bool {
	return code(err) == codes.PermissionDenied || code(err) == codes.Unauthenticated
}

// busy reports whether Temporal has refused a write because the run was being continued as new just then. A write can be repeated: it has one effect.
func busy(err error) bool {
	var exhausted *serviceerror.ResourceExhausted
	return errors.As(known(err), &exhausted) && exhausted.Cause == enums.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW
}

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// unsure is wrap for a write. Its outcome is known only where Temporal has refused the request for what it says, or for who has sent it.
func unsure(doing string, err error) error {
	switch code(err) { //nolint:exhaustive // all others may hide that the write took effect
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.AlreadyExists:
		return wrap(doing, err)
	}
	return store.AsUnknown(wrap(doing, err))
}
