package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The modules of a program are those that it was built of, each named once.
func TestModulesOfAProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := of(program)
	if err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	for _, c := range d.Components {
		if refs[c.Ref] || !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@") {
			t.Errorf("%+v", c)
		}
		refs[c.Ref] = true
	}
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"bomFormat":"CycloneDX","specVersion":"1.6"`) || !strings.Contains(string(text), `"name":"std"`) {
		t.Errorf("%s %v", text, err)
	}
	if _, err := of("main.go"); err == nil {
		t.Error("a file that is no program has no error")
	}
}
