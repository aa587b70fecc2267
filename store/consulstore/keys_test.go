package consulstore

import "testing"

// TestKeysStayAsTheyAre: records that were written before are found, whatever version of this package wrote them.
func TestKeysStayAsTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"report": "p/report", "lock/report": "p/lock=2Freport", "A-z_09": "p/A-z_09", "a.b c:d=": "p/a=2Eb=20c=3Ad=3D", "é*>": "p/=C3=A9=2A=3E",
	} {
		got := keyOf("p", name)
		back, ok := nameOf("p", want)
		if got != want || back != name || !ok {
			t.Errorf("the key of %q is %q, want %q, whose name is %q, %t", name, got, want, back, ok)
		}
	}
}

// TestKeysOfNoName: a key that no name has is not taken for that of another name, which would be listed twice.
func TestKeysOfNoName(t *testing.T) {
	for _, key := range []string{"p/a.b", "p/a=", "p/a=2", "p/a=2f", "p/a=zz", "p/=41", "p/a/b", "q/a"} {
		if name, ok := nameOf("p", key); ok {
			t.Errorf("the key %q is that of %q", key, name)
		}
	}
}
