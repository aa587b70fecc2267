package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv("FLEET_NOW") != "" {
		fmt.Println(Now())
		return
	}
	os.Exit(m.Run())
}

// While a host is suspended, CLOCK_BOOTTIME goes on. So does the time of the fleet: leases end meanwhile.
func TestTimeGoesOnInASuspend(t *testing.T) {
	unshare := servers.Program(t, "unshare, of util-linux", "unshare")
	run := func(args ...string) (string, error) {
		c := exec.Command(unshare, append([]string{"-T", "--boottime", "1000000", "--fork"}, args...)...)
		c.Env = append(os.Environ(), "FLEET_NOW=1")
		out, err := c.Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := run("true"); err != nil {
		servers.Missing(t, "a time namespace cannot be made: %v", err)
	}
	here := Now()
	out, err := run(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	there, err := time.ParseDuration(out)
	if ahead := there - here; err != nil || ahead < 1_000_000*time.Second {
		t.Errorf("where the clock that goes on in a suspend is a million seconds ahead, the time is ahead by %v, %v", ahead, err)
	}
}
