// Package strictyaml reads YAML files of people strictly: one document, no unknown key, no key twice, no value of another kind than is meant,
// and errors that name file, line and key.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Reader reads one file, and reports what is wrong with it.
type Reader struct {
	*Report

	// HideValues keeps values out of errors, and keys that do not look like one: there may be secrets among them.
	HideValues bool

	keys int // read so far
}

// Document returns the one document of a file. It returns nil if the file is empty or is no YAML; the latter is reported, as is a last line without a newline. what is kept in the
// file, for the error of a second document.
func (r *Reader) Document(data []byte, what string) *yaml.Node {
	r.Whole(data)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.failYAML(err)
		}
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.Fail(second.Line, "", "a second document begins here; keep all %s in one", what)
	} else if !errors.Is(err, io.EOF) {
		r.failYAML(err)
	}
	if len(document.Content) == 0 || IsNull(document.Content[0]) {
		return nil
	}
	return document.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// failYAML reports what the parser says of a text that is no YAML.
func (r *Reader) failYAML(err error) {
	text, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	if line == 0 && !unplaced.MatchString(text) {
		line = 1 // the parser names no first line
	}
	if strings.Contains(text, "mapping values are not allowed") {
		text += "; quote a value that has a colon"
	}
	if r.HideValues {
		text = named.ReplaceAllString(text, "'…'")
	}
	r.Fail(line, "", "this is no YAML: %s", text)
}

// unplaced is what the parser says where it knows no line.
var unplaced = regexp.MustCompile(`control characters|UTF-|alias|anchor|excessive`)

// named is what the parser quotes of the file.
var named = regexp.MustCompile(`'[^']*'`)
