package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// standard is a client of net/http.
type standard struct {
	http.Client
	url string
}

func dialStandard(address string) httpClient {
	return &standard{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}, "http://" + address}
}

func (s *standard) post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := s.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func (s *standard) close() { s.CloseIdleConnections() }

// lean is a client that does no more than HTTP/1.1 asks of one whose server it knows: it writes a request with one
// call, and reads a response whose length is given. Anything else in a response is an error.
type lean struct {
	address string

	mu   sync.Mutex
	free []*leanConn
}

// A leanConn is a connection without a request in flight.
type leanConn struct {
	net.Conn
	in       *bufio.Reader
	out      []byte
	deadline time.Time
}

// leanWait is how long a response may take at most. A deadline serves several requests: each has at least half of it.
const leanWait = time.Minute

func dialLean(address string) httpClient { return &lean{address: address} }

// take returns a connection that is not in use.
func (l *lean) take(ctx context.Context) (*leanConn, error) {
	l.mu.Lock()
	if n := len(l.free); n > 0 {
		c := l.free[n-1]
		l.free = l.free[:n-1]
		l.mu.Unlock()
		return c, nil
	}
	l.mu.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, err
	}
	return &leanConn{Conn: conn, in: bufio.NewReader(conn)}, nil
}

func (l *lean) post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	c, err := l.take(ctx)
	if err != nil {
		return 0, nil, err
	}
	if status, answer, err = c.exchange(l.address, path, body); err != nil {
		_ = c.Close()
		return 0, nil, err
	}
	l.mu.Lock()
	l.free = append(l.free, c)
	l.mu.Unlock()
	return status, answer, nil
}

func (l *lean) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.free {
		_ = c.Close()
	}
	l.free = nil
}

// exchange sends a request and reads its response.
func (c *leanConn) exchange(host, path string, body []byte) (status int, answer []byte, err error) {
	if now := time.Now(); now.After(c.deadline.Add(-leanWait / 2)) { // a timer for each request would cost
		c.deadline = now.Add(leanWait)
		if err := c.SetDeadline(c.deadline); err != nil {
			return 0, nil, err
		}
	}
	b := append(append(append(c.out[:0], "POST "...), path...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	if len(body) > 0 {
		b = append(b, "Content-Type: application/json\r\n"...)
	}
	c.out = append(append(b, "\r\n"...), body...)
	if _, err := c.Write(c.out); err != nil {
		return 0, nil, err
	}
	return c.response()
}

// response reads a response.
func (c *leanConn) response() (status int, answer []byte, err error) {
	line, err := c.line()
	if err != nil {
		return 0, nil, err
	}
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if status, err = strconv.Atoi(string(code)); err != nil || string(version) != "HTTP/1.1" || status < 200 || status > 599 {
		return 0, nil, fmt.Errorf("a response begins with %q", line)
	}
	length := -1
	for {
		if line, err = c.line(); err != nil {
			return 0, nil, err
		}
		if len(line) == 0 {
			break
		}
		name, value, found := bytes.Cut(line, []byte(": "))
		switch {
		case !found:
			return 0, nil, fmt.Errorf("a response has the header %q", line)
		case string(name) == "Content-Length" && length < 0:
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > 1<<20 {
				return 0, nil, fmt.Errorf("a response has the header %q", line)
			}
		case string(name) == "Content-Length" || string(name) == "Transfer-Encoding" || string(name) == "Connection":
			return 0, nil, fmt.Errorf("a response has the header %q", line)
		}
	}
	if status == http.StatusNoContent {
		length = 0
	}
	if length < 0 {
		return 0, nil, fmt.Errorf("a response with the status %d has no length", status)
	}
	answer = make([]byte, length)
	_, err = io.ReadFull(c.in, answer)
	if err == nil && c.in.Buffered() > 0 {
		err = fmt.Errorf("after a response came %d more bytes", c.in.Buffered())
	}
	return status, answer, err
}

// line reads a line without its end, which is valid until the next call.
func (c *leanConn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line, whole := bytes.CutSuffix(line, []byte("\r\n"))
	if !whole {
		return nil, fmt.Errorf("a response has the line %q", line)
	}
	return line, nil
}
