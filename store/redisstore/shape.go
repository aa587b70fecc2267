package redisstore

import (
	"net"
	"strconv"
	"syscall"
)

// Bounds of what a server may send. The largest true replies are far smaller: a record's state, and the slots of a cluster.
const (
	maxText     = 16 << 20 // bytes of one text
	maxLine     = 64 << 10 // bytes of a header, a number or an error
	maxElements = 1 << 17  // of one array, set or map
	maxDepth    = 32       // arrays within arrays
)

// shaped returns conn with a check of the shape of what is read from it. go-redis allocates whatever a length announces, and calls itself for each
// level of a reply: so a hostile server could end the program, in ways that cannot be recovered from.
//
// go-redis looks at a connection that is a syscall.Conn for whether it is alive; it still can.
func shaped(conn net.Conn) net.Conn {
	c := &shapedConn{Conn: conn}
	if system, ok := conn.(syscall.Conn); ok {
		return struct {
			*shapedConn
			syscall.Conn
		}{c, system}
	}
	return c
}

type shapedConn struct {
	net.Conn
	shape shape
}

// Read fails when the server has sent a reply that exceeds the bounds, or no reply at all. The connection is of no more use then.
func (c *shapedConn) Read(p []byte) (int, error) {
	if c.shape.err != nil { // nothing more may come
		return 0, c.shape.err
	}
	n, err := c.Conn.Read(p)
	if wrong := c.shape.follow(p[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

// A shape follows replies in Redis's protocol, byte by byte, and keeps no more of them than where it is.
type shape struct {
	line []byte // the header that has begun
	skip int    // bytes of a text that are to come, with its line end
	open []int  // values that are to come in each of the open arrays, the innermost last
	err  error
}

// follow goes on with more bytes. After an error it returns that error again.
func (s *shape) follow(b []byte) error {
	for len(b) > 0 && s.err == nil {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			b = b[n:]
			if s.skip -= n; s.skip == 0 {
				s.ended()
			}
			continue
		}
		s.line, b = append(s.line, b[0]), b[1:]
		if s.line[len(s.line)-1] == '\n' {
			s.err = s.header(s.line)
			s.line = s.line[:0]
		} else if len(s.line) > maxLine {
			s.err = malformed("a line of more than %d bytes", maxLine)
		}
	}
	return s.err
}

// header takes a whole line: a value, or the length of one that follows.
func (s *shape) header(line []byte) error {
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return malformed("the line %q", line)
	}
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', '#', ',', '(':
		s.ended()
		return nil
	case '$', '!', '=':
		return s.text(kind, string(line[1:len(line)-2]))
	case '*', '~', '>', '%', '|':
		return s.array(kind, string(line[1:len(line)-2]))
	}
	return malformed("a value of the kind %q", line[0])
}

// text takes the length of a text.
func (s *shape) text(kind byte, length string) error {
	n, err := announced(kind, length, maxText)
	if err != nil {
		return err
	}
	if n < 0 {
		s.ended()
	} else {
		s.skip = n + len("\r\n")
	}
	return nil
}

// array takes the length of an array, a set or a map. An attribute counts as a map that has one value more, the one that it describes.
func (s *shape) array(kind byte, length string) error {
	n, err := announced(kind, length, maxElements)
	if err != nil {
		return err
	}
	switch kind {
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1
	}
	if n <= 0 {
		s.ended()
		return nil
	}
	if s.open = append(s.open, n); len(s.open) > maxDepth {
		return malformed("arrays within arrays, more than %d deep", maxDepth)
	}
	return nil
}

// announced reads a length. It returns -1 for a value that is nil.
func announced(kind byte, length string, most int) (int, error) {
	n, err := strconv.Atoi(length)
	if n == -1 && (kind == '$' || kind == '*') {
		return n, nil
	}
	if err != nil || n < 0 || n > most {
		return 0, malformed("the length %.40q; want at most %d", string(kind)+length, most)
	}
	return n, nil
}

// ended notes that a value is complete, and with it the arrays whose last it was.
func (s *shape) ended() {
	for i := len(s.open) - 1; i >= 0; i-- {
		if s.open[i]--; s.open[i] > 0 {
			return
		}
		s.open = s.open[:i]
	}
}
