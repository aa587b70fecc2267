package consulstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// fixes are what an operator can do about errors, by what they say.
var fixes = []struct{ says, fix string }{
	{"No cluster leader", "the servers have no leader now: less than half of them reach each other, or an election is under way"},
	{"No path to datacenter", "this agent knows no datacenter of that name"},
	{"Enterprise feature", "namespaces and partitions need Consul Enterprise: remove them from the configuration"},
}

// statuses are what an operator can do about errors, by their status.
var statuses = map[int]string{
	http.StatusRequestEntityTooLarge: "raise txn_max_req_len and kv_max_value_size of the agent to their defaults",
	http.StatusTooManyRequests:       "Consul limits requests: raise limits.request_limits of the servers, or limits.http_max_conns_per_client of the agent",
	http.StatusServiceUnavailable:    "Consul limits requests to its leader: raise limits.request_limits of the servers",
	http.StatusMovedPermanently:      "is it the address of Consul's HTTP API?",
	http.StatusNotFound:              "is it the address of Consul's HTTP API?",
}

// refusals are the statuses with which Consul refuses a request before it does anything. Another one, such as 408, may be that of a proxy, which has passed the request on.
var refusals = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
	http.StatusTooManyRequests,
}

// rightsFix is what to do about a missing right.
const rightsFix = `give the token the policy that the page about Consul lists: key_prefix "PREFIX/" { policy = "write" }`

// wrap says what was being done, and gives errors of Consul the meaning that they have for every store. It returns nil for nil.
func wrap(doing string, err error) error {
	var request *requestError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed):
		return fmt.Errorf("consulstore: %w", store.ErrClosed)
	case errors.As(err, &certificate):
		return fmt.Errorf("consulstore: %s: the server's certificate is not trusted, see cafile and servername: %w", doing, err)
	case !errors.As(err, &request):
		return fmt.Errorf("consulstore: %s: %w", doing, err)
	case request.status == http.StatusForbidden || request.status == http.StatusUnauthorized:
		return fmt.Errorf("consulstore: %s: %w: the token is not valid, or has no right to do that: %s: %w", doing, fs.ErrPermission, rightsFix, err)
	case !request.sent:
		return fmt.Errorf("consulstore: %s: nothing was sent: %w", doing, err)
	}
	for _, f := range fixes {
		if request.status != 0 && strings.Contains(err.Error(), f.says) {
			return fmt.Errorf("consulstore: %s: %w: %s", doing, err, f.fix)
		}
	}
	if fix, ok := statuses[request.status]; ok {
		return fmt.Errorf("consulstore: %s: %w: %s", doing, err, fix)
	}
	return fmt.Errorf("consulstore: %s: %w", doing, err)
}

// unsure is wrap for a write. Its outcome is known only if Consul has refused it, or it never left this process. After an error of the server, such as the loss of its
// leadership, other servers may carry it out.
// It returns nil for nil.
func unsure(doing string, err error) error {
	if err == nil {
		return nil
	}
	request, ok := errors.AsType[*requestError](err)
	if ok && (!request.sent || slices.Contains(refusals, request.status)) {
		return wrap(doing, err)
	}
	return store.AsUnknown(wrap(doing, err))
}

// wrap returns the error of a change for which a transaction was refused. It is nil if that is a conflict.
func (f failure) wrap() error {
	switch {
	case strings.HasSuffix(f.What, "index is stale"):
		return nil
	case strings.Contains(f.What, "Permission denied"), strings.Contains(f.What, "lacks permission"):
		return fmt.Errorf("consulstore: writing: %w: %s (%.300q)", fs.ErrPermission, rightsFix, f.What)
	}
	return fmt.Errorf("consulstore: writing: Consul has refused it: %.300q", f.What)
}

// A fellError reports that the index of Consul has fallen.
type fellError struct{ from, to uint64 }

func (e *fellError) Error() string {
	return fmt.Sprintf("the index of Consul has fallen from %d to %d, so tokens would be granted again: the datacenter was made anew, or its servers have lost what they had confirmed; "+
		"stop what relies on tokens, and see \"Snapshots\" on the page about Consul", e.from, e.to)
}

// Is makes errors.Is(e, store.ErrUnusable) true.
func (e *fellError) Is(target error) bool { return target == store.ErrUnusable }
