package browser

import (
	"strings"
	"sync"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// faults are what a browser complains about, and the hosts that it has sent requests to.
type faults struct {
	mu    sync.Mutex
	all   []string
	hosts map[string]bool
}

func (f *faults) note(event any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		f.all = append(f.all, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			f.all = append(f.all, "error on the console")
		}
	case *network.EventRequestWillBeSent:
		_, rest, _ := strings.Cut(e.Request.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		if f.hosts == nil {
			f.hosts = map[string]bool{}
		}
		f.hosts[host] = true
	}
}

// report returns the complaints, and the hosts.
func (f *faults) report() (all []string, hosts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for host := range f.hosts {
		hosts = append(hosts, host)
	}
	return f.all, hosts
}
