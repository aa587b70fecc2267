package hazelcaststore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/hazelcast/hazelcast-go-client/hzerrors"

	"github.com/soloist-dev/soloist/store"
)

// TestWhatErrorsMean: an error reports whether a write may have taken effect, whether a right is missing, and whether a read may be sent again.
func TestWhatErrorsMean(t *testing.T) {
	const denies, passes, other = 1, 2, 3
	for err, kind := range map[error]int{
		hzerrors.ErrAuthentication: denies, hzerrors.ErrClientNotAllowedInCluster: denies, hzerrors.ErrAccessControl: denies,
		hzerrors.ErrSecurity: denies, hzerrors.ErrLogin: denies,
		hzerrors.ErrIO: passes, hzerrors.ErrHazelcastInstanceNotActive: passes, hzerrors.ErrCallerNotMember: passes, hzerrors.ErrMemberLeft: passes,
		hzerrors.ErrPartitionMigrating: passes, hzerrors.ErrRetryableHazelcast: passes, hzerrors.ErrRetryableIO: passes,
		hzerrors.ErrTargetDisconnected: passes, hzerrors.ErrTargetNotMember: passes, hzerrors.ErrWrongTarget: passes,
		hzerrors.ErrTimeout: other, hzerrors.ErrIllegalState: other, errors.New("something else"): other,
	} {
		told := fmt.Errorf("got exception from server:\n com.hazelcast.Error: why%w\n\tat com.hazelcast\n", err)
		if temporary(told) != (kind == passes) {
			t.Errorf("%v: may be sent again: %t", err, temporary(told))
		}
		read, written := wrap("reading", told), unsure("writing", told)
		if errors.Is(read, store.ErrUnknown) || errors.Is(read, fs.ErrPermission) != (kind == denies) || !errors.Is(read, err) {
			t.Errorf("a read: %v", read)
		}
		if errors.Is(written, store.ErrUnknown) != (kind != denies) || errors.Is(written, fs.ErrPermission) != (kind == denies) || !errors.Is(written, err) {
			t.Errorf("a write: %v", written)
		}
		if text := read.Error(); !strings.HasPrefix(text, "hazelcaststore: reading: com.hazelcast.Error: why") || strings.Contains(text, "\n") {
			t.Errorf("the text %q has more than one line of the member's", text)
		}
	}
	if err := wrap("reading", store.ErrClosed); err != store.ErrClosed { //nolint:errorlint // as it is
		t.Errorf("a store that is closed: %v", err)
	}
}

// TestMembersThatHaveNoCP: the reply of a member that has no CP Subsystem is reported with what to change, and nothing else is.
func TestMembersThatHaveNoCP(t *testing.T) {
	for _, c := range []struct{ class, text, fix string }{
		{"com.hazelcast.LicenseException", "CP needs a License", "install a license"},
		{"java.lang.IllegalStateException", "CP Subsystem is not enabled!", "set cp-member-count to 3"},
		{"java.lang.UnsupportedOperationException", "CP", "cp needs members of Hazelcast 5.4"},
		{"com.hazelcast.core.HazelcastException", "Unrecognized client message received", "cp needs members of Hazelcast 5.4"},
		{"java.lang.IllegalStateException", "CP is being restarted", ""},
	} {
		err := withoutCP(fmt.Errorf("asking: %w", &memberError{c.class, c.text}))
		if errors.Is(err, store.ErrUnusable) != (c.fix != "") || !strings.Contains(err.Error(), c.fix) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.text, err, c.fix)
		}
	}
	if err := withoutCP(errEnded); err != errEnded { //nolint:errorlint // as it is
		t.Errorf("got %v, want the error as it is", err)
	}
}

// TestErrorsOfMembers: the error of a member has the first line of its text, and its class without the package.
func TestErrorsOfMembers(t *testing.T) {
	if err := (&memberError{"com.hazelcast.cp.AnException", "\n why\n\tat com.hazelcast"}); err.Error() != "why (AnException)" {
		t.Errorf("got %q", err)
	}
	denied := map[string]bool{
		"java.security.AccessControlException": true, "java.lang.SecurityException": true, "javax.security.auth.login.LoginException": true,
		"com.hazelcast.client.AuthenticationException": true, "java.lang.IllegalStateException": false, "java.io.IOException": false,
	}
	for class, want := range denied {
		err := fmt.Errorf("asking: %w", &memberError{class, "no"})
		if deniedByMember(err) != want || errors.Is(permission(err), fs.ErrPermission) != want || !errors.Is(permission(err), err) {
			t.Errorf("%s: %t, %v; want that it is a missing right: %t", class, deniedByMember(err), permission(err), want)
		}
	}
	if deniedByMember(errEnded) {
		t.Error("a connection that has ended is a missing right")
	}
}
