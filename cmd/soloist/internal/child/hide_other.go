//go:build !linux

package child

// Hide keeps other processes of this user from looking into this one, where the system can do that. This one cannot.
func Hide() error { return nil }
