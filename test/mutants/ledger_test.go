package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What was caught is known to the next run, as long as neither the code nor the patch has changed, and also after a line that was cut off.
func TestLedger(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "bin", "mutants.jsonl")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *ledger {
		t.Helper()
		l, err := openLedger(root, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.file.Close() })
		return l
	}
	write("a.go", "package a")
	l := open()
	key := l.key("a patch", 10)
	if _, ok := l.find(key); ok {
		t.Error("something is known at the beginning")
	}
	if err := l.keep(entry{Key: key, Name: "1", Caught: []string{"a law"}, Histories: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.file.WriteString(`{"key":"cut o`); err != nil {
		t.Fatal(err)
	}
	if e, ok := open().find(key); !ok || e.Caught[0] != "a law" || e.Histories != 3 {
		t.Errorf("what was caught is %+v, %t", e, ok)
	}
	write("a.md", "a document")
	write("1.patch", "a patch")
	l = open()
	if l.key("a patch", 10) != key {
		t.Error("a document makes a difference")
	}
	if l.key("another patch", 10) == key || l.key("a patch", 11) == key {
		t.Error("another patch, or another number of histories, makes none")
	}
	write("a.go", "package b")
	if open().key("a patch", 10) == key {
		t.Error("the code makes no difference")
	}
}
