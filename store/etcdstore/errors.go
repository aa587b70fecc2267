package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
)

var (
	errTokens          = fmt.Errorf("etcdstore: tokens are revisions of etcd, so a claim cannot ask for one above another: %w", errors.ErrUnsupported)
	errTooSlow         = errors.New("etcd's reply came after the lease that it granted was over: a retry gets another one")
	errTooFewOps       = errors.New("etcd takes too few operations in one transaction: set --max-txn-ops to 16 or more")
	errReply           = errors.New("the reply is not one to the request: something between this process and etcd has changed it, or it is not etcd")
	errClosedMeanwhile = fmt.Errorf("etcdstore: %w", store.ErrClosed)
)

// fixes are the errors of etcd that an operator can do something about.
var fixes = []struct {
	of  error
	fix string
}{
	{rpctypes.ErrNoSpace, "its database is full: compact and defragment it, or raise --quota-backend-bytes, then run `etcdctl alarm disarm`"},
	{rpctypes.ErrCorrupt, "its members do not have the same data: see etcd's runbook for corruption, and `etcdctl alarm list`"},
	{rpctypes.ErrNoLeader, "it has no leader, since less than half of its members can be reached: see `etcdctl endpoint status --cluster`"},
	{rpctypes.ErrRequestTooLarge, "raise --max-request-bytes to its default, 1.5 MiB"},
	{rpctypes.ErrNotCapable, "it has to be version 3.4 or later"},
}

// denials are the errors of a user who may not do something.
var denials = []struct {
	of  error
	fix string
}{
	{rpctypes.ErrPermissionDenied, "give the user's role readwrite for the prefix of the store: `etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX`"},
	{rpctypes.ErrUserEmpty, "etcd wants a user and a password"},
	{rpctypes.ErrAuthFailed, "the user or the password is wrong"},
	{rpctypes.ErrInvalidAuthToken, "the token of the user is not valid any more: repeat the request"},
	{rpctypes.ErrAuthOldRevision, "users or roles have just changed: repeat the request"},
	{rpctypes.ErrAuthNotEnabled, "the URL has a user, and etcd has no users: run `etcdctl auth enable`, or leave the user out"},
}

// wrap adds to err what was being done, and translates errors of etcd into those of package store. It returns nil for nil.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, d := range denials {
		if errors.Is(err, d.of) {
			return fmt.Errorf("etcdstore: %s: %w: %s (%w)", doing, err, d.fix, fs.ErrPermission)
		}
	}
	for _, f := range fixes {
		if errors.Is(err, f.of) {
			return fmt.Errorf("etcdstore: %s: %w: %s", doing, err, f.fix)
		}
	}
	switch status.Code(err) {
	case codes.Canceled:
		return fmt.Errorf("etcdstore: %s: %w: %w", doing, context.Canceled, err)
	case codes.DeadlineExceeded:
		return fmt.Errorf("etcdstore: %s: %w: %w", doing, context.DeadlineExceeded, err)
	}
	return fmt.Errorf("etcdstore: %s: %w", doing, err)
}

// wrap is the function wrap, and adds why the client could not connect, if a request has waited for that.
func (s *Store) wrap(doing string, err error) error { return wrap(doing, s.clients.explain(err)) }

// unsure is wrap for a write. Only if etcd has refused the request before it carried it out, or no request has left this process, the outcome is
// known: nothing was written.
func (s *Store) unsure(doing string, err error) error {
	if refused(err) {
		return s.wrap(doing, err)
	}
	return store.AsUnknown(s.wrap(doing, err))
}

// refused reports whether a write has surely had no effect. That its database is full is not among these errors: etcd also reports that of a
// transaction that it has carried out, if the database became full meanwhile.
func refused(err error) bool {
	for _, of := range []error{
		rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrTooManyRequests, rpctypes.ErrLeaseNotFound, rpctypes.ErrNotCapable,
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrDuplicateKey, rpctypes.ErrKeyNotFound, rpctypes.ErrEmptyKey, rpctypes.ErrCompacted, rpctypes.ErrCorrupt,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	// gRPC connects before it sends. A failure to connect and a connection that broke later have the same code: only the texts of
	// their errors differ.
	return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), `connection error: desc = "transport: `)
}
