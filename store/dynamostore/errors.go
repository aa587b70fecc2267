package dynamostore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/soloist-dev/soloist/store"
)

// wrap adds what was being done, and gives errors of the service the meaning that they have for every store.
func wrap(doing string, err error) error {
	var missing *types.ResourceNotFoundException
	var refusal smithy.APIError
	var untrusted *tls.CertificateVerificationError
	var nonsense *smithy.DeserializationError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("dynamostore: %s: the table is not there: run `soloist migrate up` (%w): %w", doing, err, store.ErrSchema)
	case errors.As(err, &refusal) && denied[refusal.ErrorCode()] != "":
		return fmt.Errorf("dynamostore: %s: %s: %w: %w", doing, denied[refusal.ErrorCode()], err, fs.ErrPermission)
	case throttled(err):
		return fmt.Errorf("dynamostore: %s: the service refuses requests because there are too many: give the table on-demand billing or more capacity: %w", doing, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("dynamostore: %s: the certificate of the endpoint is not trusted, see AWS_CA_BUNDLE: %w", doing, err)
	case strings.Contains(err.Error(), "gave HTTP response to HTTPS client"):
		return fmt.Errorf("dynamostore: %s: the endpoint has no TLS: write http: in its address: %w", doing, err)
	case strings.Contains(err.Error(), `Post "http:`) && brokenOff(err):
		return fmt.Errorf("dynamostore: %s: if the endpoint has TLS, write https: in its address: %w", doing, err)
	case errors.As(err, &nonsense):
		return fmt.Errorf("dynamostore: %s: what has responded does not speak as DynamoDB does: check the endpoint and what is between: %w", doing, err)
	}
	return fmt.Errorf("dynamostore: %s: %w", doing, err)
}

// brokenOff reports whether the connection of a request was closed, as a server that wants TLS closes it.
func brokenOff(err error) bool {
	for _, way := range []error{io.EOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, way) {
			return true
		}
	}
	return false
}

// denied are the codes of requests without the right to make them, with what to do.
var denied = map[string]string{
	noRight:                               "a right is missing: docs/stores/dynamodb.md has a policy with all",
	"ExpiredTokenException":               "the credentials have expired: get new credentials",
	"UnrecognizedClientException":         wrongCredentials,
	"InvalidSignatureException":           wrongCredentials + ", and the clock of this machine",
	"MissingAuthenticationTokenException": wrongCredentials,
	"IncompleteSignatureException":        wrongCredentials,
	"InvalidClientTokenId":                wrongCredentials,
}

const noRight = "AccessDeniedException"

const wrongCredentials = "the service does not accept the credentials: check them"

// unsent is wrap for a write. The outcome is known, nothing has been written, only where the service has refused the
// request, and said why, or where no request has left this process: every other error may hide that it took effect. A status without a
// code of the service, such as 408, may be that of a proxy, which has passed the request on.
func unsent(doing string, err error) error {
	wrapped := wrap(doing, err)
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		var refusal smithy.APIError
		said := errors.As(err, &refusal) && refusal.ErrorCode() != noCode
		if status := response.HTTPStatusCode(); said && status >= http.StatusBadRequest && status < http.StatusInternalServerError {
			return wrapped
		}
		return store.AsUnknown(wrapped)
	}
	var send *smithyhttp.RequestSendError
	var canceled *smithy.CanceledError
	if errors.As(err, &send) || errors.As(err, &canceled) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return store.AsUnknown(wrapped)
	}
	return wrapped // there are no credentials, for instance
}

// noCode is what the SDK calls an error in whose response it finds no code.
const noCode = "UnknownError"

// throttled reports whether the service has refused a request because there were too many.
func throttled(err error) bool {
	var refusal smithy.APIError
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.ErrorCode() {
	case "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException", "Throttling":
		return true
	}
	return false
}
