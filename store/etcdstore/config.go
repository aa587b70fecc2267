package etcdstore

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store. The zero value is valid.
type Config struct {
	// Prefix is how all keys of the store begin. A / is added if it does not end with one. The default is "soloist/". No other
	// program may write below it.
	Prefix string
}

// longestPrefix is in bytes.
const longestPrefix = 255

func (c Config) filled() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = "soloist"
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if len(c.Prefix) > longestPrefix || !utf8.ValidString(c.Prefix) || strings.ContainsFunc(c.Prefix, unicode.IsControl) {
		return c, &store.InvalidError{
			What: "prefix", Value: strconv.Quote(c.Prefix), Rule: "give at most " + strconv.Itoa(longestPrefix) + " bytes of UTF-8 without control characters",
		}
	}
	return c, nil
}
