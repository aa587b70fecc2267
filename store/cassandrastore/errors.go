package cassandrastore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/storeurl"
)

var (
	errForeign = errors.New("something else has written it")
	errNoReply = errors.New("the server has not said whether the write was applied")
)

// wrap adds what was being done, and gives errors of the server the meaning that they have for every store.
func wrap(doing string, err error) error {
	var (
		denied      *gocql.RequestErrUnauthorized
		credentials *gocql.RequestErrCredentials
		invalid     *gocql.RequestErrInvalid
		few         *gocql.RequestErrUnavailable
	)
	switch {
	case errors.As(err, &few):
		return fmt.Errorf("cassandrastore: %s: of %d copies that must decide %d can be reached: start the nodes that are down: %w", doing, few.Required, few.Alive, err)
	case errors.As(err, &denied):
		return fmt.Errorf("cassandrastore: %s: a right is missing: GRANT SELECT, MODIFY on the table, and to migrate CREATE on the keyspace: %w: %w", doing, err, fs.ErrPermission)
	case errors.As(err, &credentials):
		return fmt.Errorf("cassandrastore: %s: check the user and the password: %w: %w", doing, err, fs.ErrPermission)
	case strings.Contains(err.Error(), "authentication required"): // the driver has no type for it
		return fmt.Errorf("cassandrastore: %s: the server wants a user and a password: write cassandra://USER:PASSWORD@HOST/KEYSPACE: %w: %w", doing, err, fs.ErrPermission)
	case errors.As(err, &invalid) && aboutSchema(invalid.Message()):
		return fmt.Errorf("cassandrastore: %s: run `soloist migrate up` (%w): %w", doing, err, store.ErrSchema)
	}
	for _, of := range connecting {
		if strings.Contains(err.Error(), of.says) {
			return fmt.Errorf("cassandrastore: %s: %s: %w", doing, of.fix, storeurl.Untrusted(err))
		}
	}
	return fmt.Errorf("cassandrastore: %s: %w", doing, err)
}

// connecting are what can be done about a connection that the driver cannot make, by what it says. It has no types for these errors either.
var connecting = []struct{ says, fix string }{
	{"failed to resolve any of the provided hostnames", "no host of the store's URL has an address: check their names"},
	{"host was filtered", "with consistency=local_serial only nodes of the datacenter that datacenter= names are asked, and no host of the store's URL that can be reached is one: check its name and the hosts"},
	{"connection refused", "no server listens there"},
	{"failed to verify certificate", "the server's certificate is not trusted, see cafile and servername"},
	{"does not look like a TLS handshake", "the server has no TLS at this address: leave out tls=true"},
	{"unable to discover protocol version", "is it the port of Cassandra's native protocol? If it has TLS there, write tls=true"},
}

// aboutSchema reports whether an invalid request was one because of a keyspace, a table or a column that is not there. The
// server has no code for these.
func aboutSchema(message string) bool {
	for _, phrase := range []string{"does not exist", "unconfigured table", "ndefined column", "nknown identifier"} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// unsure is wrap for a write. Only where the server has refused the request before it did anything, or where no request
// has left this process, the outcome is known: nothing was written.
func unsure(doing string, err error) error {
	if refused(err) {
		return wrap(doing, err)
	}
	return store.AsUnknown(wrap(doing, err))
}

// refused reports whether a write has surely had no effect. A server that is overloaded or has too few replicas may say so
// after the write was decided, when it is to be acknowledged.
func refused(err error) bool {
	for _, sent := range []error{gocql.ErrNoConnections, gocql.ErrSessionClosed, gocql.ErrNoStreams} {
		if errors.Is(err, sent) {
			return true
		}
	}
	var few *gocql.RequestErrUnavailable
	if errors.As(err, &few) {
		return few.Consistency == gocql.Serial || few.Consistency == gocql.LocalSerial
	}
	return is[*gocql.RequestErrUnauthorized](err) || is[*gocql.RequestErrCredentials](err) || is[*gocql.RequestErrSyntax](err) ||
		is[*gocql.RequestErrInvalid](err) || is[*gocql.RequestErrConfig](err) || is[*gocql.RequestErrBootstrapping](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
