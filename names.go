package soloist

import (
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// A namer makes the names of records: the namespace as @NAMESPACE/, if there is one, then the kind, then the name that
// the user gave. So a lock and a job of the same name have different records, and so have namespaces. Records outside
// of any namespace begin with their kind, as Java clients that share them expect (package store/internal/shedlock).
type namer struct{ prefix string }

// The kinds, as they begin the names of records.
const (
	kindLock         = "lock/"
	kindJob          = "job/"
	kindControl      = "control/" // commands to a job: pause, run now
	kindElement      = "element/"
	kindSemaphore    = "semaphore/"
	kindLeader       = "leader/"
	kindReplica      = "replica/"       // the live replicas
	kindReplicaJobs  = "replica-jobs/"  // the jobs of each replica
	kindGroup        = "group/"         // which replica claims jobs that are due together
	nameActions      = "actions"        // the log of administrative changes
	nameControls     = "controls"       // locked for every change under kindControl, and of nameControlOfAll
	nameControlOfAll = "control-of-all" // commands to all jobs
)

func newNamer(namespace string) (namer, error) {
	if namespace == "" {
		return namer{}, nil
	}
	if err := store.CheckName(namespace); err != nil || len(namespace) > 64 || strings.Contains(namespace, "/") {
		return namer{}, invalid("namespace", strconv.Quote(namespace), "give 1 to 64 bytes of UTF-8 without a slash or control characters")
	}
	return namer{records.In(namespace)}, nil
}

// name returns the record's name for a kind and a name. All parts but the last are escaped, so that no two records
// share a name.
func (n namer) name(kind, name string) (string, error) {
	if err := store.CheckName(name); err != nil {
		return "", err
	}
	full := n.prefix + kind + name
	switch room := store.MaxName - len(n.prefix) - len(kind); {
	case len(name) <= room:
		return full, nil
	case strings.Count(kind, "/") > 1: // of two names, either can be the one that is too long
		whole := kind + name
		return "", invalid("name", strconv.Quote(whole[:min(len(whole), 60)]), "has %d bytes, both names together; here at most %d fit",
			len(whole), store.MaxName-len(n.prefix))
	default:
		return "", invalid("name", strconv.Quote(name[:min(len(name), 60)]), "has %d bytes; here at most %d fit", len(name), room)
	}
}

// partsOf returns the kind for the parts of one thing: the elements of a job, the permits of a semaphore.
func partsOf(kind, name string) string { return kind + escape(name) + "/" }

var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescaper = strings.NewReplacer("%25", "%", "%2F", "/")
)

func escape(s string) string   { return escaper.Replace(s) }
func unescape(s string) string { return unescaper.Replace(s) }

// replicaOf returns the replica in a holder that newHolder returned.
func replicaOf(holder string) string {
	if i := strings.LastIndexByte(holder, '#'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// holderFor returns the holder of one attempt at t. The holder of a permit contains the number of permits, so that
// Admin.Semaphores can show the limit without another record.
func (c *core) holderFor(t target) string {
	switch {
	case t.holder != "":
		return t.holder
	case t.names == nil:
		return c.newHolder()
	}
	return c.newHolder() + "/" + strconv.Itoa(len(t.names))
}

// limitOf returns the limit that holderFor put into a holder; 0 if there is none.
func limitOf(holder string) int {
	_, limit, _ := strings.Cut(holder[len(replicaOf(holder)):], "/")
	n, _ := strconv.Atoi(limit)
	return n
}
