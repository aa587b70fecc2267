package zkstore

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
)

// fixes are the errors of ZooKeeper that an operator can do something about.
var fixes = []struct {
	of  error
	fix string
}{
	{zk.ErrNoServer, "none of the servers could be reached, or less than half of them reach each other"},
	{zk.ErrShortBuffer, "the reply is cut short, or the request is larger than the buffer of the client (see zk.WithMaxConnBufferSize)"},
}

// denials are the errors of a user who may not do something.
var denials = []struct {
	of  error
	fix string
}{
	{zk.ErrNoAuth, "the user or the password is wrong, or the ACL of the nodes does not let the user read, write, create and delete"},
	{zk.ErrAuthFailed, "ZooKeeper refuses this way of naming a user"},
	{zk.ErrInvalidACL, "the ACL of the configuration names nobody: with the scheme auth the connection needs a user"},
}

// An operationError is what was being done with the error that it met.
type operationError struct {
	doing string
	err   error
}

func (e *operationError) Error() string { return "zkstore: " + e.doing + ": " + e.err.Error() }
func (e *operationError) Unwrap() error { return e.err }

// wrap says what was being done, unless err says so already, and gives errors of ZooKeeper the meaning that they have for every store. It returns nil for nil.
func wrap(doing string, err error) error {
	if _, wrapped := errors.AsType[*operationError](err); err == nil || wrapped || errors.Is(err, store.ErrClosed) {
		return err
	}
	for _, d := range denials {
		if errors.Is(err, d.of) {
			return &operationError{doing, fmt.Errorf("%w: %s (%w)", err, d.fix, fs.ErrPermission)}
		}
	}
	for _, f := range fixes {
		if errors.Is(err, f.of) {
			return &operationError{doing, fmt.Errorf("%w: %s", err, f.fix)}
		}
	}
	return &operationError{doing, err}
}
