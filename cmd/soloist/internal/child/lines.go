package child

import (
	"bytes"
	"sync"
	"unicode"
	"unicode/utf8"
)

// MaxLine is the longest line, in bytes, that is passed on in one piece. A longer one is split.
const MaxLine = 64 << 10

// Stream begins a stream. The format, if not nil, makes of each line, without its newline, what is passed on.
func (f *Funnel) Stream(format func(line []byte) []byte) *Lines {
	return &Lines{funnel: f, format: format}
}

// Lines is one stream of a funnel. Close it to pass on what stands after the last newline. It is safe for use by many
// goroutines, but mixes what they write.
type Lines struct {
	funnel *Funnel
	format func([]byte) []byte

	mu      sync.Mutex
	pending []byte // after the last newline
}

// Write takes output as it comes, in any pieces. It returns no error: what the funnel cannot write, the funnel counts.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := 0
	for taken < len(p) {
		rest := p[taken:]
		n := bytes.IndexByte(rest, '\n')
		room := MaxLine - len(l.pending)
		switch {
		case n >= 0 && n <= room:
			l.pending = append(l.pending, rest[:n]...)
			taken += n + 1
			l.flush(len(l.pending))
		case len(rest) > room:
			l.pending = append(l.pending, rest[:room]...)
			taken += room
			l.flush(wholeRunes(l.pending))
		default:
			l.pending = append(l.pending, rest...)
			taken += len(rest)
		}
	}
	return taken, nil
}

// Close passes on an unfinished line, with a newline. The stream can be used again.
func (l *Lines) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > 0 {
		l.flush(len(l.pending))
	}
}

// flush passes on the first n pending bytes as a line.
func (l *Lines) flush(n int) {
	text := l.pending[:n:n]
	if l.format != nil {
		text = l.format(text)
	}
	line := append(append(make([]byte, 0, len(text)+1), text...), '\n')
	l.pending = append(l.pending[:0], l.pending[n:]...)
	l.funnel.put(line)
}

// wholeRunes is the length of p without a character that is cut off at the end.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back < len(p); back++ {
		if i := len(p) - back; utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// Clean is text without control and format characters other than the tab, without the escape sequences by which a
// terminal is told of colours and cursors, and with U+FFFD for what is not UTF-8.
func Clean(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if n := escapeLen(text); n > 0 {
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		if r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029' {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// escapeLen is the length of the escape sequence that text begins with: ESC [ parameters and a final byte, or ESC ] up
// to BEL or ESC \.
func escapeLen(text []byte) int {
	if len(text) < 2 || text[0] != 0x1b {
		return 0
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
			if text[i] < 0x20 || text[i] > 0x3f {
				return i
			}
		}
	case ']':
		for i := 2; i < len(text); i++ {
			if text[i] == 0x07 {
				return i + 1
			}
			if text[i] == 0x1b {
				if i+1 < len(text) && text[i+1] == '\\' {
					return i + 2
				}
				return i
			}
		}
	default:
		return 0
	}
	return len(text)
}
