package hazelcaststore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"

	"github.com/soloist-dev/soloist/store"
)

// denied are the errors of requests without the right to make them.
var denied = []error{
	hzerrors.ErrAuthentication, hzerrors.ErrClientNotAllowedInCluster, hzerrors.ErrAccessControl, hzerrors.ErrSecurity, hzerrors.ErrLogin,
}

// passing are the errors after which another attempt may succeed. They do not show whether a request was carried out.
var passing = []error{
	hzerrors.ErrIO, hzerrors.ErrHazelcastInstanceNotActive, hzerrors.ErrCallerNotMember, hzerrors.ErrMemberLeft, hzerrors.ErrPartitionMigrating,
	hzerrors.ErrRetryableHazelcast, hzerrors.ErrRetryableIO, hzerrors.ErrTargetDisconnected, hzerrors.ErrTargetNotMember, hzerrors.ErrWrongTarget,
}

// temporary reports whether a request that changes nothing may be sent again.
func temporary(err error) bool {
	return slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}

// refused reports whether the cluster has refused a request because this client may not make it.
func refused(err error) bool {
	return slices.ContainsFunc(denied, func(d error) bool { return errors.Is(err, d) })
}

// wrap adds to err what was being done, and translates errors of the cluster into those of package store.
func wrap(doing string, err error) error {
	if errors.Is(err, store.ErrClosed) {
		return err
	}
	if refused(err) {
		return fmt.Errorf("hazelcaststore: %s: %w: %w", doing, brief{err}, fs.ErrPermission)
	}
	return fmt.Errorf("hazelcaststore: %s: %w", doing, brief{err})
}

// unsure is wrap for a write. Its outcome is known only if the cluster has refused it for want of a right: the members repeat a write among themselves when one
// of them leaves, so that even a refusal may follow a write that took effect.
func unsure(doing string, err error) error {
	if refused(err) {
		return wrap(doing, err)
	}
	return store.AsUnknown(wrap(doing, err))
}

// brief is an error without the stack of Java that its text has.
type brief struct{ err error }

func (b brief) Error() string {
	text := strings.TrimPrefix(b.err.Error(), "got exception from server:\n")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(text)
}

func (b brief) Unwrap() error { return b.err }
