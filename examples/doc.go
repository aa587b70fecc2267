// Package examples holds small programs, each a whole one. Its test runs them.
package examples
