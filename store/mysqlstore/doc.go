// Package mysqlstore is a store in MySQL 8.0 and later, or MariaDB 10.6 and later, on a *sql.DB that has been opened with the driver
// github.com/go-sql-driver/mysql.
//
//	s, err := mysqlstore.New(db, mysqlstore.Config{})
//
// [Store.Migrate] creates the tables. [Store.Schema] returns the statements that create them by hand.
//
// # The tables
//
// The first table has one row per name. The second one has the version of both, and the floor for the tokens of names that have been
// forgotten; see sql/schema_records.sql. Names are VARBINARY, because they are bytes: the collations of the servers treat names that
// differ in case, accents or trailing spaces as equal, and the two servers differ in that. Times are DATETIME(6) in UTC by the server's
// clock. They never cross the connection: only durations in microseconds do.
//
// # The protocol
//
// Each verb is one transaction of two or three statements. It is for up to 1,000 names, and 2 MiB of states or an eighth of
// max_allowed_packet; a larger batch takes several requests. The first statements write. The last one reads the rows as they are then, and
// the results are computed from that. So MySQL, which cannot return what a statement has written, needs no more statements than MariaDB.
// Each row has the number of the request that changed it last.
//
// A claim first reads without locks, and a refused claim writes nothing. Rows that look free are locked with SKIP LOCKED. A row that
// another transaction has locked is tried again alone, for 63 ms at most (a release for 255 ms). Then a claim is refused, and the outcome
// of an extension or release is unknown, so the client repeats it. A choice among several names tries the others first. A long transaction
// of a caller delays no lease but its own.
//
// # Round trips
//
// On MariaDB a verb is one round trip with any *sql.DB: its statements go as one compound statement. For one name a session prepares it with its
// first call, which is then three round trips; a server that prepares nothing is sent the text each time. On MySQL they go as one request if
// the DSN has multiStatements=true, which [OpenURL] sets. Otherwise they go one by one: a grant is then 10 round trips, a refusal 1, an
// extension or release 8. Values are written into the statements as numbers, hexadecimal or base64. So the SQL mode and the character set
// of a session cannot change a value, and interpolateParams has no effect.
//
// # The sessions of others
//
// The sessions of a *sql.DB can have any time zone, SQL mode, autocommit, isolation level and character set, and a request changes none of
// them for those who use the session next. It rolls back a transaction that was left open on its connection, and runs at READ COMMITTED.
// One exception: where statements go one by one, autocommit is read once.
//
// A session whose clock has been set (SET timestamp) is closed instead, and another one used, because leases go by the server's clock. Two things are not seen to. The
// session of a transaction that Complete is given must have the server's clock. Where statements go one by one, a read alone, such as the refusal of a claim, goes by the
// clock of its session.
//
// # Waiting
//
// The servers cannot report a release. While there are watches, one goroutine reads all watched names in one request. It does so again after
// a twentieth of the time since the last change, at least 2 ms and at most 50 ms. A release by the same store wakes its watches immediately.
//
// # ShedLock
//
// With Config.ShedLock the table is one that ShedLock's JDBC providers can share, with usingDbTime(): locks and jobs of soloist and locks of
// ShedLock exclude each other when they have the same name. Migrate alters an existing table of ShedLock and keeps its rows. Names in a
// namespace (soloist.Config.Namespace), elements, semaphores and leaders are soloist's own.
package mysqlstore
