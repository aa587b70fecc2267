package etcdstore

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
)

// TestWhatErrorsOfEtcdMean: of each error of etcd it is reported whether a write may have had an effect, what it is for every store, and what to do. Where etcd may have carried the write out, or may
// do so still, it is unknown.
func TestWhatErrorsOfEtcdMean(t *testing.T) {
	s := &Store{clients: given{}}
	for _, test := range []struct {
		err     error
		unknown bool
		is      error // nil if it only is what etcd has replied with
		says    string
	}{
		{rpctypes.ErrPermissionDenied, false, fs.ErrPermission, "readwrite for the prefix"},
		{rpctypes.ErrUserEmpty, false, fs.ErrPermission, "wants a user"},
		{rpctypes.ErrAuthFailed, false, fs.ErrPermission, "password is wrong"},
		{rpctypes.ErrInvalidAuthToken, false, fs.ErrPermission, "repeat the request"},
		{rpctypes.ErrAuthOldRevision, false, fs.ErrPermission, "repeat the request"},
		{rpctypes.ErrAuthNotEnabled, true, fs.ErrPermission, "auth enable"},
		{rpctypes.ErrRequestTooLarge, false, nil, "--max-request-bytes"},
		{rpctypes.ErrNotCapable, false, nil, "3.4 or later"},
		{rpctypes.ErrCorrupt, false, nil, "runbook"},
		{rpctypes.ErrTooManyOps, false, nil, ""},
		{rpctypes.ErrTooManyRequests, false, nil, ""},
		{rpctypes.ErrLeaseNotFound, false, nil, ""},
		{rpctypes.ErrDuplicateKey, false, nil, ""},
		{rpctypes.ErrKeyNotFound, false, nil, ""},
		{rpctypes.ErrEmptyKey, false, nil, ""},
		{rpctypes.ErrCompacted, false, nil, ""},
		{rpctypes.ErrNoSpace, true, nil, "alarm disarm"},
		{rpctypes.ErrNoLeader, true, nil, "no leader"},
		{rpctypes.ErrTimeout, true, nil, ""},
		{rpctypes.ErrStopped, true, nil, ""},
		{rpctypes.ErrLeaderChanged, true, nil, ""},
		{status.Error(codes.Canceled, "cancelled"), true, context.Canceled, "cancelled"},
		{status.Error(codes.DeadlineExceeded, "late"), true, context.DeadlineExceeded, "late"},
		{context.DeadlineExceeded, true, context.DeadlineExceeded, ""},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing"`), false, nil, "dialing"},
		{status.Error(codes.Unknown, `connection error: desc = "transport: Error while dialing"`), true, nil, "dialing"},
		{status.Error(codes.Unavailable, "transport is closing"), true, nil, "closing"},
		{errReply, true, nil, "not one to the request"},
	} {
		err := s.unsure("writing", test.err)
		if !errors.Is(err, test.err) || errors.Is(err, store.ErrUnknown) != test.unknown || test.is != nil && !errors.Is(err, test.is) || test.is == nil && errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v: got %v, want that it is unknown: %v, and %v", test.err, err, test.unknown, test.is)
		}
		if text := err.Error(); !strings.Contains(text, "etcdstore: writing: ") || !strings.Contains(text, test.says) {
			t.Errorf("%v: got %q, want what was being done, and %q", test.err, text, test.says)
		}
	}
	if err := s.wrap("reading", nil); err != nil {
		t.Errorf("no error is %v", err)
	}
}
