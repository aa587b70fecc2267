package soloist

// A Kind is the kind of thing that a lease is for.
type Kind string

// The kinds of leases.
const (
	KindLock    Kind = "lock"
	KindLeader  Kind = "leader"
	KindPermit  Kind = "permit" // one slot of a semaphore
	KindJob     Kind = "job"
	KindElement Kind = "element"
)
