package natsstore

import "testing"

// TestKeysStayAsTheyAre: records that were written before are found, whatever version of this package wrote them.
func TestKeysStayAsTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"report": "report", "lock/report": "lock/report", "A-z_09/": "A-z_09/", "a.b c:d=": "a=2Eb=20c=3Ad=3D", "é*>": "=C3=A9=2A=3E", "/": "/",
	} {
		got := keyOf(name)
		back, ok := nameOf(want)
		if got != want || back != name || !ok {
			t.Errorf("the key of %q is %q, want %q, whose name is %q, %t", name, got, want, back, ok)
		}
	}
	of := subjects{"b"}
	if got := of.record("k"); got != "$KV.b.k" || of.stream() != "KV_b" {
		t.Errorf("a record is at %q in %q", got, of.stream())
	}
}
