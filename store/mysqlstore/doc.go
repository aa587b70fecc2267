// Package mysqlstore is a store in MySQL 8.0 and later, or MariaDB 10.6 and later, on a *sql.DB that has been opened with the driver
// github.com/go-sql-driver/mysql.
//
//	s, err := mysqlstore.New(db, mysqlstore.Config{})
//
// The tables are made by [Store.Migrate], or by hand from [Store.Schema].
//
// # The tables
//
// One row per name, and a second table with the version of both and the floor for the tokens of names that have been forgotten; see
// sql/schema_records.sql. Names are VARBINARY, because they are bytes: the servers' collations take names for one that differ in case,
// accents or trailing spaces, and not the same on both servers. Times are DATETIME(6) in UTC by the server's clock, and never cross the
// connection: what crosses it are microseconds from now.
//
// # The protocol
//
// Each verb is one transaction of two or three statements, for any number of names up to 1,000 (and 2 MiB of states, or an eighth of
// max_allowed_packet; more are several requests). The first statements write what may be written, the last reads how the names stand now, and from that the answer is made.
// So MySQL, which cannot return what it has written, needs nothing more than MariaDB. A row says by which request it was last changed.
//
// What a claim only looks at is read without locks, and a refused claim writes nothing. What looks free is locked with SKIP LOCKED. A
// row that somebody else's transaction has locked is tried again alone, for 63 ms at most (a release for 255 ms); then a claim is
// refused, and the outcome of an extension or release is unknown, so that it is asked for again. A caller's long transaction holds up
// no lease but its own.
//
// # Round trips
//
// On MariaDB a verb is one round trip with any *sql.DB: its statements go as one compound statement. On MySQL they go as one request if
// the DSN has multiStatements=true, and one by one if not: a grant is then 8 round trips, a refusal 1, an extension or release 6.
// [OpenURL] sets it. Every value is in the statement as a number, or as hexadecimal or base64, so that neither the SQL mode nor the
// character set of a session can change what it says, and interpolateParams does not matter.
//
// # The sessions of others
//
// Nothing is expected of the sessions of a *sql.DB, and nothing set in them stays changed: a request gives up what was left
// open on its connection, and runs at READ COMMITTED. Time zone, SQL mode, autocommit, isolation level and character set may be any.
// One exception: where statements go one by one, autocommit is looked at once.
//
// # Waiting
//
// The servers cannot report a release. While somebody waits, one goroutine looks at the names, in one request for all, after a twentieth of
// the time for which nothing has happened, at least 2 ms and at most 50 ms. A release by the same store wakes at once.
//
// # ShedLock
//
// With Config.ShedLock the table is one that ShedLock's JDBC providers can share, with usingDbTime(): locks and jobs of soloist and locks of
// ShedLock exclude each other when they have the same name. Migrate takes over a table that is there, with its rows. Names in a
// namespace (soloist.Config.Namespace), elements, semaphores and leaders are soloist's own.
package mysqlstore
