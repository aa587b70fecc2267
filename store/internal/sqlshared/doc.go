// Package sqlshared is what the stores on SQL databases have in common and what does not depend on the database: waking those who wait for a name by
// looking at it now and then, listing page by page, and reading statements from .sql files. A store calls it; it calls a store only
// through the functions that it was given.
package sqlshared
