package store

import (
	"fmt"
	"io"
)

// A Secret is a password or token in a configuration. Package fmt with every verb, encoders such as encoding/json, and log/slog show "(secret)"
// instead of it, and nothing if it is empty. string(s) is its text. As a field it must be exported, in each struct that is around it, too:
// package fmt does not call the methods of other fields, and shows their text.
type Secret string

// Format implements fmt.Formatter.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, s.shown()) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown()), nil }

func (s Secret) shown() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}
