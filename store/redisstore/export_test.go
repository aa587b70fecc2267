package redisstore

import (
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// ACL is the line of docs/stores/redis.md.
const ACL = aclLine

// Dialer is what the connections of a store with that URL are made by.
func Dialer(url string) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return t.connect, nil
}

// Hear is what the inbox of lines hears.
func (s *Store) Hear(message string) { s.lines.heard(message) }

// ShapedText is a connection to a server that sends a text, and ends.
func ShapedText(text string) io.Reader { return shaped(textConn{text: strings.NewReader(text)}) }

type textConn struct {
	net.Conn
	text io.Reader
}

func (c textConn) Read(p []byte) (int, error) { return c.text.Read(p) }

// Mark renews the mark that somebody watches.
func (s *Store) Mark(ctx context.Context) error { return s.mark(ctx) }

// Watching reports whether somebody watches names, for whom the mark is renewed.
func (s *Store) Watching() bool { return s.watches.watching() }

// MarkSeldom has a mark that was made not be renewed by the clock. It must come before the first watch.
func (s *Store) MarkSeldom() { s.watches.every = time.Hour }
