// Package sqlitestore is a store in one SQLite file, for the processes of one host. It needs no server and no cgo.
//
//	s, err := sqlitestore.Open("/var/lib/app/leases.db")
//
// # The file
//
// The application_id in the header identifies a file of soloist, and its user_version the version of the tables: records has one row per
// name, and meta one row about the file itself; see sql/schema.sql. While the file is open, SQLite keeps a log (-wal) and an index of
// the log (-shm) beside it. The three belong together: copying, moving or deleting one of them under running processes can lose their
// leases. Back the file up with VACUUM INTO or SQLite's backup API. Restore it while no process uses it, without a -wal or -shm.
//
// # The protocol
//
// A claim first reads its record. A refused claim takes no lock of the file and writes nothing, not even to the log. From the first claim of
// a batch that looks free on, there is one transaction. It begins with BEGIN IMMEDIATE, so that no other process writes while it decides,
// and is committed with synchronous=FULL. Each extension and release is one guarded UPDATE; those of a batch are one transaction. A batch of
// one is a single statement where that is enough: a claim changes the record only if it is still as it was read.
//
// A call waits for the lock of the file outside of SQLite, for as long as its context allows and at most ten seconds. When it has the
// lock, its context does not end it any more, because an interrupted COMMIT might have happened. If a COMMIT fails, the error is
// [store.ErrUnknown], unless there was no space left.
//
// # Time
//
// Leases are timed by the host's clock. On Linux that is CLOCK_BOOTTIME: steps of the wall clock do not change it, and it continues while
// the host is suspended. The offset of a time namespace is subtracted, so containers of one host agree. It begins at zero with each boot.
// The file contains the boot of its times, and the offset to the wall clock then. The first process that opens it after a reboot, or on
// another host, converts all times in one transaction. On other systems, and where /proc is hidden, the clock is the wall clock: a step of
// it ends leases early or late, but tokens never repeat. A file keeps the clock that it was created with; [Store.Capabilities] reports it.
//
// # Tokens
//
// A token is the greatest of the name's last token + 1, the floor of the file + 1, and the wall clock in microseconds. The floor is the greatest
// token of the records that were forgotten, and of a file that was here before this one and that a process had open.
//
// # When the file goes away
//
// Every call first checks that the file at the path is still the one that is open. It checks again after a commit: if the file has changed,
// others may not see the commit, and the outcome is unknown. Every few milliseconds a call also checks that the log exists. If the log was
// deleted and no other one was written to, its contents are moved into the file. While the file is missing or replaced, calls fail until the
// last lease in the old file has expired, because its holders may still be working. The first call after that creates a file, or uses the one
// that is there. A process that starts in between does not know those leases, if no process has the old file open any more. So delete or
// replace the file only while no process uses it, together with its -wal and -shm.
//
// # One file, one log
//
// SQLite finds the log by the path, so a file that is used by two paths would have two logs, and two holders. A file with more than one name
// (hard links) is refused, and so is a single file that is mounted. On Linux each process also shows, by locks on the files, which log and
// index it uses with which file. While it lives, no other process combines them differently: a file that was moved under running processes
// is not opened at its new place, and a new file is not opened with the log of the one that it replaced. If all processes are killed between
// such a replacement and their next call, nothing shows that the remaining -wal and -shm belong to the old file: delete them yourself.
package sqlitestore
