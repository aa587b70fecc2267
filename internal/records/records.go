// Package records says how the names of a client's records begin, for the client and for what looks at its records from outside.
package records

// In answers how the names of the records in a namespace begin, "" without one. The records outside of any namespace begin with their kind,
// which is a word; so no record of one namespace is another's, or outside of all.
func In(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "@" + namespace + "/"
}
