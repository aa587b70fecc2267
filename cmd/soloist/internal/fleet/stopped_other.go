//go:build !linux

package fleet

// Stopped reports whether the process has been stopped by a signal and not been continued. It cannot be seen here, so
// it is believed.
func (p *Process) Stopped() bool { return Supported }
