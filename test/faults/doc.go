// Package faults checks what a store makes of a fault in the middle of a request. It lets each step of each operation fail in turn: a statement that the server
// refuses, a reply that is lost, a row that cannot be read. After each fault what was told must be true, and the store must work.
package faults
