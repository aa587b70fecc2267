// Command bench measures this project and other libraries for locks side by side, on servers that it starts itself, and writes
// tables, a JSON file and a page with plots.
//
//	go run ./bench -smoke          each contender once, in less than a minute
//	go run ./bench                 the short form, in less than four minutes
//	go run ./bench -rounds 7 -for 2s -waiters 32
//	go run ./bench -scale          how cost grows with replicas, jobs, leases and elements
//
// The contenders of a case take turns within each round, so that they meet the same machine; what is told first is the ratio to the
// floor of the same round, as the median over the rounds with the least and the greatest. The floor is what anybody would
// write by hand: the fewest bare commands that take and give back a name.
//
// Commands are counted at the server, and so is its processor time.
package main
