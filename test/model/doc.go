// Package model is a model of the protocol of one name, in the language of spin (https://spinroot.com), which looks at each state that
// it can get into: lease.pml. Its test needs spin and a C compiler.
//
// The model shows, for a store without lines and for one with them, that two clients never believe in a lease of one name at the same
// instant, and that nobody believes in a lease that the store has given to another; for any number of clients and attempts, and without an end
// in time. Requests are delayed, lost, carried out more than once and after those who sent them have gone; clients die and begin again.
// The clock of a client falls behind by what the margin covers.
//
// It is of the protocol and not of the code, for which there is package sim. It leaves out tokens, for which no time matters; marks,
// states and lingering, which let nobody in; the order of a line; and stores that forget, but for one that has to be caught. Time
// goes in ticks, a few to a TTL, and all leases last equally long.
package model
