package natsstore

import "testing"

// TestVersions: a server counts as one of a version or a later one by its numbers, and not if it does not tell them.
func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.11.0": true, "2.11.0-RC.1": true, "2.12": true, "2.100.3": true, "3.0.1": true, "3.2.0": true, "10.0.0": true,
		"2.10.29": false, "2.9.11": false, "1.11.0": false, "1.99.0": false, "": false, "2": false, "v2.11.0": false, "2.x.0": false,
	} {
		if got := atLeast(version, 2, 11); got != want {
			t.Errorf("%q is 2.11 or later: %v", version, got)
		}
	}
}
