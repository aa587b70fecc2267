// Package user uses package sum.
package user

import (
	"testing"

	"github.com/soloist-dev/soloist/test/changes/testdata/sum"
)

func TestForgotten(t *testing.T) {
	if n := sum.Forgotten(1, 2); n != 1 {
		t.Errorf("%d", n)
	}
}
