package temporalstore

import (
	"regexp"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store.
type Config struct {
	// Namespace is Temporal's namespace. The default is "default". It is not taken from the client, which does not say which one it uses.
	Namespace string

	// Prefix begins the workflow IDs and the task queues of the store, and is the workflow type: it keeps the store apart from everything else in the
	// namespace. The default is "soloist".
	Prefix string
}

// The prefix has no upper case: some databases below Temporal do not tell it from lower case.
var (
	prefixText    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)
	namespaceText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)
)

func (c Config) filled() (Config, error) {
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.Prefix == "" {
		c.Prefix = "soloist"
	}
	if !namespaceText.MatchString(c.Namespace) {
		return c, &store.InvalidError{What: "namespace", Value: strconv.Quote(c.Namespace), Rule: "give up to 255 letters, digits, ., _ and -, with a letter or digit first"}
	}
	if !prefixText.MatchString(c.Prefix) {
		return c, &store.InvalidError{What: "prefix", Value: strconv.Quote(c.Prefix), Rule: "give up to 40 small letters, digits, ., _ and -, with a letter or digit first"}
	}
	return c, nil
}
