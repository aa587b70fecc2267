package fleet

import (
	"bytes"
	"fmt"
	"os"
)

// Stopped reports whether the process has been stopped by a signal and not been continued.
func (p *Process) Stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") ")) // after the name of the program, in parentheses
	return bytes.HasPrefix(state, []byte("T"))
}
