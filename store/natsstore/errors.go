package natsstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/soloist-dev/soloist/store"
)

var (
	errNotConnected = errors.New("the connection is closed")
	errSilent       = fmt.Errorf("natsstore: the bucket does not report what was stored: run `soloist migrate up`: %w", errors.ErrUnsupported)
)

// The codes of errors of JetStream that have no constant in its client.
const (
	codeStoreFailed     jetstream.ErrorCode = 10077
	codeInsufficient    jetstream.ErrorCode = 10023
	codeNoSuitablePeers jetstream.ErrorCode = 10005
)

// fixes are the errors of JetStream that an operator can do something about.
var fixes = map[jetstream.ErrorCode]string{
	jetstream.JSErrCodeJetStreamNotEnabled:           "write `jetstream {}` into the server's configuration",
	jetstream.JSErrCodeJetStreamNotEnabledForAccount: "write `jetstream: enabled` into the account's configuration",
	codeStoreFailed:     "the bucket is full, or its server could not write: raise max_bytes and max_msgs of the stream, or remove them",
	codeInsufficient:    "the servers or the account have no storage left: raise max_file of JetStream, or the account's limits",
	codeNoSuitablePeers: "a cluster needs a server with JetStream and free storage for each replica",
}

// explained adds to an error of connecting what to do about a port that is not for clients of NATS, or has TLS where the URL has not.
func explained(err error) error {
	var unread *net.OpError
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: the server has no TLS: leave tls=true out, or write `tls {}` into the server's configuration", err)
	case errors.Is(err, io.EOF), errors.Is(err, nats.ErrNoInfoReceived), errors.As(err, &unread) && unread.Op == "read":
		return fmt.Errorf("%w: what listens there does not greet as NATS does, or is too busy for that: name the port for clients (usually 4222, not 8222)", err)
	}
	return err
}

// wrap says what was being done, and gives errors of NATS the meaning that they have for every store. It returns nil for nil.
func wrap(doing string, err error) error {
	var denied *deniedError
	var failure *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed):
		return fmt.Errorf("natsstore: %w", store.ErrClosed)
	case errors.As(err, &denied):
		return fmt.Errorf("natsstore: %s: %w: give the user the permissions that the page about NATS lists (%w)", doing, err, fs.ErrPermission)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("natsstore: %s: %w: user, password or credentials are not valid (%w)", doing, err, fs.ErrPermission)
	case errors.As(err, &failure):
		return wrapFailure(doing, failure)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("natsstore: %s: nobody has replied: JetStream is not enabled on the servers (write `jetstream {}` into their configuration), for the account "+
			"(`jetstream: enabled`) or in the domain, or the bucket has no leader now (see `nats server report jetstream`): %w", doing, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("natsstore: %s: not connected; the client is reconnecting", doing)
	}
	return fmt.Errorf("natsstore: %s: %w", doing, err)
}

// wrapFailure wraps an error that JetStream has reported.
func wrapFailure(doing string, failure *jetstream.APIError) error {
	if failure.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		return fmt.Errorf("natsstore: %s: there is no such bucket in this account and domain: run `soloist migrate up`: %w", doing, store.ErrSchema)
	}
	text := fmt.Sprintf("%s (error %d of JetStream)", failure.Description, failure.ErrorCode)
	if fix, ok := fixes[failure.ErrorCode]; ok {
		text += ": " + fix
	}
	return fmt.Errorf("natsstore: %s: %s", doing, text)
}

// unsure is wrap for a message that was to be stored. Its outcome is known only if the server has refused it, or it never left this process.
func unsure(doing string, err error) error {
	if refused(err) {
		return wrap(doing, err)
	}
	return store.AsUnknown(wrap(doing, err))
}

// refused reports whether a message has surely not been stored. That storing it failed is not among these errors: other replicas may have stored it.
func refused(err error) bool {
	var denied *deniedError
	var failure *jetstream.APIError
	if errors.As(err, &failure) {
		return failure.ErrorCode != codeStoreFailed
	}
	return errors.As(err, &denied) && !denied.sent || errors.Is(err, errNotConnected) || errors.Is(err, errNotSent) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrHeadersNotSupported)
}

// conflicts reports whether the server has refused a message because the record is another one.
func conflicts(err error) bool {
	var failure *jetstream.APIError
	return errors.As(err, &failure) && (failure.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || failure.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
