-- No parameters. One row: SQLite's version, the journal mode, synchronous as a number.
SELECT sqlite_version(), journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous
