// Package pgstore is a store in a PostgreSQL database, or in CockroachDB, for every machine that reaches it.
//
//	s, err := pgstore.OpenURL(ctx, "postgres://user@host/database?sslmode=verify-full")
//	s, err := pgstore.New(pool, pgstore.Config{}) // on a pool of one's own
//
// # The tables
//
// The tables hold the records, one row per name; the version of the schema; the floors of the tokens; and the queues of waiters.
// [Store.Migrate] creates them; see sql/schema. Opening a store sends no request. A call that does not find the tables returns
// [store.ErrSchema].
//
// # The protocol
//
// Each verb is one statement in its own transaction, for one name or for a thousand. A claim reads first. A refused claim writes nothing,
// not even to the log. A row that looks free is locked without waiting, and decided again as it is then; if another claim was faster, the
// statement is run again. A lease is live or not by the server's clock_timestamp(). The clocks of clients are never compared with anything.
//
// A locked row delays no other row of a batch. It is tried again for a tenth of a second. Then a claim is refused as held, and the outcome of
// an extension or release is unknown.
//
// # Unknown outcomes
//
// After an error from the server the outcome is certain: the transaction has ended and changed nothing. If the connection breaks, the
// context ends or the server ends the session after the statement was sent, the outcome is unknown. It is also unknown if the server stops
// waiting for its standby, with the warning "canceling wait for synchronous replication": a failover can lose such a commit. Statements
// that fail with a serialization failure or a deadlock are run again.
//
// # Waiting
//
// Waiters of a name are in a queue, and a release hands the name over to the first one: see Store.Queue. Beside that there are watches.
//
// All watches of a handle share one connection that listens. It is opened with the first watch, as the pool opens its own, with BeforeConnect and
// AfterConnect of the pool's configuration, and closed some time after the last. PrepareConn or BeforeAcquire is called for it once, without the values of
// the context of a call: what it sets, such as a role or the search_path, must be the same for all calls of a store. A
// release notifies only if a connection listens for its group of names; an advisory lock shows that. Notifications are encrypted with a
// secret in the tables, because every role that may connect can listen and notify. When the connection is lost, all watches are woken
// once it is back. Through a pooler, on a standby and with CockroachDB the watched names are polled instead, in one statement for all of
// them, at intervals that grow to half a second.
//
// # Tokens
//
// A token is the greater of the name's last token + 1 and the server's clock in microseconds. When records are forgotten the greatest
// of their tokens stays as the floor for names that have no record. sql/schema/floor.sql explains why no token is granted twice, however
// long a claim takes. [Store.Capabilities] reports whether what was confirmed to a client survives a crash and a failover.
//
// # With ShedLock
//
// With Config.ShedLock the table is ShedLock's, with more columns, and its statements work as before. The records of the lock and of the
// job NAME are its row NAME, so they and ShedLock's lock exclude each other; records in a namespace, and of other kinds, have rows of
// their own. A trigger adds a fencing token to the locks of ShedLock. A row that ShedLock may know of is never deleted.
package pgstore
