package dynamostore

import (
	"regexp"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store.
type Config struct {
	// Table is the name of the table. "" means "soloist".
	Table string
}

var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

func (c Config) filled() (Config, error) {
	if c.Table == "" {
		c.Table = "soloist"
	}
	if !tableName.MatchString(c.Table) {
		return c, &store.InvalidError{What: "table", Value: strconv.Quote(c.Table), Rule: "give 3 to 255 letters, digits, _, . or -"}
	}
	return c, nil
}
