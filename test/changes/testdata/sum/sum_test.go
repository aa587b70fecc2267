package sum

import "testing"

func TestSum(t *testing.T) {
	if n, err := Sum(2, 3); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := Sum(-1, 3); err == nil {
		t.Error("no error")
	}
}
