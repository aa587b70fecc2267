package cron

import "fmt"

// A ParseError says what is wrong with an expression, where, and what would be right.
type ParseError struct {
	Expression string // the whole expression as given
	Field      string // the field at fault, such as "day-of-month"; empty if the expression as a whole is
	Piece      string // the part of the field at fault, such as the "61" of "1,61"
	Problem    string // what is wrong with it and what would be right
}

func (e *ParseError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("cron: %q: %s", e.Expression, e.Problem)
	}
	return fmt.Sprintf("cron: %q: %s %q: %s", e.Expression, e.Field, e.Piece, e.Problem)
}
