package zkstore

import "testing"

// TestNodesStayWhereTheyAre: records that were written before are found, whatever version of this package wrote them.
func TestNodesStayWhereTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"report": "/p/eb/report", "lock/report": "/p/09/lock%2Freport", "A-z_09": "/p/07/A-z_09", "..b c:d%": "/p/15/%2E.b%20c:d%25", "é*": "/p/f1/%C3%A9%2A",
	} {
		if got := (tree{"/p"}).node(name); got != want {
			t.Errorf("the node of %q is %q, want %q", name, got, want)
		}
		if got := (tree{"/p"}).life(name, "x"); got != want+"/x" {
			t.Errorf("the child of the node of %q is %q, want %q", name, got, want+"/x")
		}
	}
}
