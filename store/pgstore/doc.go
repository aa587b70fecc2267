// Package pgstore is a store in a PostgreSQL database, or in CockroachDB, for every machine that reaches it.
//
//	s, err := pgstore.OpenURL(ctx, "postgres://user@host/database?sslmode=verify-full")
//	s, err := pgstore.New(pool, pgstore.Config{}) // on a pool of one's own
//
// # The tables
//
// One has a row for each name, one the version of the schema, one the floors of the tokens, one those who wait. [Store.Migrate] makes
// them; see sql/schema. Opening a store asks the server nothing, and a call that does not find the tables answers [store.ErrSchema].
//
// # The protocol
//
// Each verb is one statement, its own transaction, for one name and for a thousand. A claim reads first, and what is refused is
// only read: it writes nothing, not even to the log. What looks free is locked without waiting and changed, as it is then and not as it
// was read; if somebody was faster, the statement is run again. A lease is live while the row says so by clock_timestamp() of the
// server. No client's clock is ever compared with anything.
//
// Rows that somebody has locked hold up nobody else. They are asked for again for a tenth of a second: then a claim answers that the
// name is held, and an extension or release that its outcome is unknown.
//
// # Unknown outcomes
//
// An error that the server has answered is certain: the transaction is over and has changed nothing. A broken connection, a context
// that ends, a session that the server ends, are unknown once the statement has been sent. So is a commit that the server has stopped
// waiting for: it warns "canceling wait for synchronous replication", and the commit may be lost in a failover. Serialization failures
// and deadlocks are run again here.
//
// # Waiting
//
// Who waits stands in a line, and a release hands the name over to the first of it: see Store.Queue. The rest of this is about watches.
//
// Each handle with a watch has one connection that listens, shared by all its watches, opened with the first and closed a while
// after the last. A release notifies only if somebody listens for its group of names, which an advisory lock tells. What it says is sealed with
// a secret of the tables, for every role that may connect can listen and notify. When the
// connection is lost all are woken once it is back. Through a pooler, on a standby and with CockroachDB the watched names are looked
// at instead, in one statement for all of them, at intervals that grow to half a second.
//
// # Tokens
//
// A token is the greater of the name's last token + 1 and the server's clock in microseconds. When records are forgotten the greatest
// of their tokens stays as the floor for names that have no record: see sql/schema/floor.sql for why none is given twice, however long
// a claim takes. [Store.Capabilities] says whether what a client was told survives
// a crash and a failover.
//
// # With ShedLock
//
// With Config.ShedLock the table is ShedLock's, with more columns, and its statements work as before. The records of the lock and of the
// job NAME are its row NAME, so they and ShedLock's lock exclude each other; records in a namespace, and of other kinds, have rows of
// their own. A trigger gives a fencing token to what ShedLock takes. A row that ShedLock may know of is never deleted.
package pgstore
