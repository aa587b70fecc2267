package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A lean client reads responses as they are, and takes nothing that is not whole, or that it would have to guess at.
func TestLeanClient(t *testing.T) {
	const body = `{"lease":"x"}`
	for response, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + body:                                "200 " + body,
		"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n":                                        "204 ",
		"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n":                                  "409 ",
		"HTTP/1.1 200 OK\r\n\r\n" + body:                                                      "",
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + body:                                "",
		"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + body:                                "",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                                       "",
		"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 13\r\n\r\n" + body:          "",
		"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n" + body:           "",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + body + "\r\n0\r\n\r\n": "",
		"HTTP/1.1 200 OK\nContent-Length: 13\n\n" + body:                                      "",
		"HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n" + body:                                "",
		"HTTP/1.1 100 Continue\r\n\r\n":                                                       "",
		"HTTP/1.1 2 OK\r\nContent-Length: 0\r\n\r\n":                                          "",
		"HTTP/1.1 200 OK\r\nwhat\r\n\r\n":                                                     "",
		"":                                                                                    "",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				var asked []byte
				if asked, err = io.ReadAll(r.Body); string(asked) != `{"ttl": 1}` || r.Host != l.Addr().String() || r.URL.Path != "/p" || r.Header.Get("Content-Type") != "application/json" {
					err = fmt.Errorf("%s %s %v", r.URL, asked, r.Header)
				}
			}
			if err == nil {
				_, _ = io.WriteString(conn, response)
			}
			_ = conn.Close()
		}()
		client := dialLean(l.Addr().String())
		status, answer, err := client.post(t.Context(), "/p", []byte(`{"ttl": 1}`))
		got := fmt.Sprint(status, " ", string(answer))
		if want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v; want %q", strings.ReplaceAll(response, "\r", ""), got, err, want)
		}
		client.close()
		_ = l.Close()
	}
}
