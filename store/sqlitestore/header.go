package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	codes "modernc.org/sqlite/lib"
)

const (
	applicationID = 0x501015 // in the file's header: the file is ours
	schemaVersion = 1        // in the file's header: what is in sql/schema.sql
)

// checkHeader refuses the file of another program without writing to it: SQLite would make a log beside it.
func (s *Store) checkHeader(info os.FileInfo) error {
	switch size := info.Size(); {
	case size == 0:
		return nil
	case size < 512: // SQLite would take a file of one byte for an empty one
		return errNoDatabase
	}
	db, err := connect(s.connector, dsn(s.path, "mode=ro&immutable=1"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = inspect(db)
	if code(err) == codes.SQLITE_CORRUPT {
		return nil // or just being written by another process: only a proper look, with locks, can tell
	}
	return err
}

// inspect returns whether the database is still empty. Its error may be that it is not ours.
func inspect(db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (empty bool, err error) {
	var id, version, objects int
	if err := db.QueryRowContext(background, sqlInspect).Scan(&id, &version, &objects); err != nil {
		return false, err
	}
	if objects == 0 && id == 0 && version == 0 {
		return true, nil
	}
	return false, checkVersion(id, version)
}

func checkVersion(id, version int) error {
	switch {
	case id != applicationID:
		return fmt.Errorf("it is an SQLite database, but not soloist's: its application_id is %#x, not %#x; "+
			"give the path of another file, or of none", uint32(id), applicationID)
	case version > schemaVersion:
		return fmt.Errorf("it was made by a newer soloist: its user_version is %d, and this version knows %d; update this one",
			version, schemaVersion)
	case version < schemaVersion:
		return fmt.Errorf("its user_version is %d, which no soloist has made; restore it from a backup, or move it away", version)
	}
	return nil
}
