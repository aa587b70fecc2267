// Package records defines the prefixes of the names of a client's records, for the client and for packages that read
// its records.
package records

// In returns the prefix of the records in a namespace, "" without a namespace. Records outside of any namespace begin
// with their kind, which is a word; so the records of different namespaces, and of none, never have the same name.
func In(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "@" + namespace + "/"
}
