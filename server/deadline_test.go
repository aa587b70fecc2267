package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An action that takes longer than a response may, by the server that listens, has one nevertheless: its caller would
// not know that it was done.
func TestAnActionThatTakesLongHasAResponse(t *testing.T) {
	for _, want := range []int{http.StatusNoContent, http.StatusSeeOther} {
		synctest.Test(t, func(t *testing.T) {
			s, p := startInBubble(t, Config{OpenActions: true})
			l, err := s.client.TryLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			// Somebody else is about to write the list of actions.
			within := s.http.Config.WriteTimeout + 10*time.Second
			outs, err := s.store.Acquire(t.Context(), []store.Claim{{Name: "actions", Holder: "a#1", TTL: within}})
			if err != nil || outs[0].Err != nil {
				t.Fatal(outs, err)
			}
			begin, token := time.Now(), strconv.FormatInt(l.Token(), 10)
			request := "DELETE /v1/locks/x?token=" + token + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
			if want == http.StatusSeeOther {
				form := url.Values{"verb": {"release"}, "kind": {"lock"}, "name": {"x"}, "token": {token}, "reason": {"r"}}.Encode()
				request = fmt.Sprintf("POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"+
					"Content-Type: application/x-www-form-urlencoded\r\n\r\n%s", len(form), form)
			}
			conn := p.dial()
			defer conn.Close()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("no response, after %v: %v", time.Since(begin), err)
			}
			defer response.Body.Close()
			if took := time.Since(begin); response.StatusCode != want || took < within {
				t.Errorf("%d after %v; want %d after %v or more", response.StatusCode, took, want, within)
			}
		})
	}
}
