package soloist

import "testing"

// The end of an output says that it is one.
func TestEndOfAnOutput(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", ""}, {"12345678", "12345678"}, {"123456789", "…23456789"}, {"a\tb\nc\rd", "a\tb\nc d"}, {"12é45678", "…2é45678"},
		{"é1234567", "…1234567"}, // no half of a character is left
	} {
		if got := lastOf(row.text, 8); got != row.want {
			t.Errorf("%q becomes %q, want %q", row.text, got, row.want)
		}
	}
}
