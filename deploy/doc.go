// Package deploy has the tests of the files for deployment beside it.
package deploy
