package sqlitestore

import (
	"fmt"
	"strings"

	codes "modernc.org/sqlite/lib"
)

// fit makes sure that the tables have what each statement needs, and that nobody has added to them.
func (c *conn) fit() error {
	for _, query := range []string{sqlMeta, sqlMetaFloor, sqlRecord, sqlTake, sqlRetake, sqlExtend, sqlRelease, sqlList, sqlForgettable, sqlForget, sqlLast} {
		if _, err := c.prepare(query); err != nil { //nolint:sqlclosecheck // the connection keeps it
			if code(err) == codes.SQLITE_ERROR {
				err = fmt.Errorf("its tables are not as soloist has made them: restore the file from a backup, or stop every process that uses it and move it away: %w", err)
			}
			return err
		}
	}
	return c.untouched()
}

// untouched returns as an error what somebody has added to the file by which a statement would write something else than it says, or nothing, and
// succeed: what was granted so would be granted again. A transaction calls it, and statements that are transactions of their own change
// nothing while there is a trigger.
func (c *conn) untouched() error {
	var found []string
	err := c.rows(background, sqlForeign, nil, func(scan func(...any) error) error {
		var what string
		err := scan(&what)
		found = append(found, what)
		return err
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("it has %s, which soloist has not made and which can change or refuse what is written: drop it", strings.Join(found, " and "))
	}
	return err
}
