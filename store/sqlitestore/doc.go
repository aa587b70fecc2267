// Package sqlitestore is a store in one SQLite file, for the processes of one host. It needs no server and no cgo.
//
//	s, err := sqlitestore.Open("/var/lib/app/leases.db")
//
// # The file
//
// The header's application_id says that a file is soloist's, and its user_version which tables are in it: one row per
// name in records, and one row in meta about the file itself; see sql/schema.sql. SQLite keeps a log (-wal) and an index
// of it (-shm) beside the file while it is open; the three belong together, and copying, moving or deleting one of them
// under running processes takes from their leases what holds them up. Back the file up with VACUUM INTO or SQLite's
// backup API; restore it, without a -wal or -shm beside it, while no process uses it.
//
// # The protocol
//
// A claim is first only read. If it is refused, that is all: no lock of the file is taken and nothing is written, not
// even to the log. Only from the first claim of a batch on that looks free is there one transaction, begun with BEGIN
// IMMEDIATE so that no other process writes while it decides, and committed with synchronous=FULL. Extensions and
// releases are one guarded UPDATE each, all of a batch in one transaction. A batch of one is a transaction of a single
// statement where that is enough: a claim takes the record that was read, if it is still as it was.
//
// The file's lock is waited for outside SQLite, as long as the context allows and at most ten seconds. Once it is there,
// the call no longer heeds its context: a COMMIT that is interrupted might have happened. A failed COMMIT is
// [store.ErrUnknown], unless it failed for want of space.
//
// # Time
//
// Leases are reckoned by the host's clock. On Linux that is CLOCK_BOOTTIME, which no step of the wall clock touches and
// which goes on while the host is suspended; the shift of a time namespace is taken back, so containers of one host
// agree. It starts anew with each boot. The file says of which boot its times are, and how the wall clock stood to them;
// the one that first opens it after a reboot, or on another host, rebases them in one transaction. Elsewhere, and where /proc
// is hidden, it is the wall clock: a step of that ends leases early or late, though it never lets a token repeat. A file
// stays with the clock it was made with; [Store.Capabilities] says which that is.
//
// # Tokens
//
// A token is the greater of the name's last token + 1 and the wall clock in microseconds. When records are forgotten,
// the greatest of their tokens stays in the file as the floor for names that have no record.
//
// # When the file goes away
//
// Every call first looks whether the file at the path is still the one that is open, and looks again after a commit,
// before it believes that others see it: if not, the outcome is unknown. That the log is still there it looks every few
// milliseconds; what is in a deleted log is brought into the file, if nobody has written to another. While there is no file, or another
// has been put in its place, calls fail until the last lease that the old file held has run out, because its holders may still be at
// work. The first call after that makes a new file, or uses the one that is there. A process that starts in between knows nothing of those
// leases if nobody has the old file open any more: delete or replace the file only when no process uses it, and -wal and -shm with it.
//
// # One file, one log
//
// SQLite finds the log by the path, so a file that is used by two paths has two logs, and two holders. A file with more than one name (hard
// links), and one that is mounted by itself, are refused. On Linux each process also says, by locks on the files, which log and index
// it uses with which file, and nobody opens them otherwise while it lives: a file that was moved under running processes is not opened at
// its new place, nor the log of a file that was replaced together with the new one. If all processes are killed between such a
// replacement and their next call, only you know that the -wal and -shm that were left are not those of the new file: delete them.
package sqlitestore
