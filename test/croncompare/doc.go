// Package croncompare holds cron parsers side by side: what each of them makes of the same expression.
//
// Its tests establish, by running, which of our requirements each parser meets, and assert that the table in
// docs/adr/0002-own-cron-parser.md says just that. They also compare next times over years for the part of the dialect
// that all of them share. It is its own module, so that no user of the library ever requires these parsers.
package croncompare
