package server

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// visible returns the HTML of a page in whose texts the characters that are not printed are escaped as in Go, as \u202e: they could make one
// name look like another, or change the order of what stands around them. Attributes keep them, for forms send names back.
func visible(page []byte) []byte {
	out := make([]byte, 0, len(page))
	tag := false // html/template escapes < and > in all data
	for len(page) > 0 {
		r, n := utf8.DecodeRune(page)
		switch {
		case r == '<' || r == '>':
			tag = r == '<'
			fallthrough
		case tag, r == '\n', r == '\t', unicode.IsPrint(r):
			out = append(out, page[:n]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		page = page[n:]
	}
	return out
}
