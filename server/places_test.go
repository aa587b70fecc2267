package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/soloisttest"
)

// used returns how many places are taken.
func (p *places) used() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, taken := range p.taken {
		n += taken
	}
	return n
}

// One token can't take all places of the others: what it holds by connections keeps none of them from a lease, or from events. A token that is
// alone with its role has all places.
func TestATokenLeavesPlacesToOthers(t *testing.T) {
	var lines strings.Builder
	secrets := map[string]string{}
	for _, who := range [][2]string{{"a", "operate"}, {"b", "operate"}, {"c", "operate"}, {"root", "admin"}, {"eyes", "read"}} {
		secret, line, err := NewToken(who[0], who[1], "")
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(line + "\n")
		secrets[who[0]] = secret
	}
	tokens, err := ReadTokens(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, soloisttest.NewStore(), Config{Tokens: tokens, MaxWaiting: 8})
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	// most has a token hold leases until it gets no more, and returns how many.
	most := func(who string) (n int) {
		s.token = secrets[who]
		for {
			r, err := s.http.Client().Do(s.request("POST", "/v1/locks/"+who+strconv.Itoa(n)+"/hold", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Body.Close() })
			if r.StatusCode == http.StatusServiceUnavailable {
				return n
			}
			n++
		}
	}
	for _, want := range []struct {
		who string
		n   int
	}{{"a", 4}, {"b", 2}, {"a", 0}, {"c", 1}, {"root", 1}, {"c", 0}} {
		if n := most(want.who); n != want.n {
			t.Errorf("%s gets %d places, want %d", want.who, n, want.n)
		}
	}
	s.token = secrets["eyes"]
	s.listen("")
	cut()
	for s.server.waiting.used() != 0 {
		time.Sleep(time.Millisecond)
	}
	alone, err := ReadTokens(strings.NewReader(strings.Join(strings.SplitAfter(lines.String(), "\n")[3:], ""))) // root and eyes
	if err != nil {
		t.Fatal(err)
	}
	tokens.Replace(alone)
	ctx = t.Context()
	if n := most("root"); n != 8 {
		t.Errorf("alone with its role, a token gets %d of 8 places", n)
	}
}

// A token shares the places with each other one that may take them, whatever more that may do.
func TestWhoSharesThePlaces(t *testing.T) {
	for names, want := range map[string]map[role]bool{
		"operate":         {roleRead: false, roleOperate: false},
		"operate admin":   {roleRead: true, roleOperate: true, roleAdmin: false},
		"read operate":    {roleRead: true, roleOperate: false},
		"operate operate": {roleRead: true, roleOperate: true},
	} {
		var lines strings.Builder
		for i, name := range strings.Fields(names) {
			_, line, err := NewToken(strconv.Itoa(i), name, "")
			if err != nil {
				t.Fatal(err)
			}
			lines.WriteString(line + "\n")
		}
		tokens, err := ReadTokens(strings.NewReader(lines.String()))
		if err != nil {
			t.Fatal(err)
		}
		for role, several := range want {
			if got := tokens.several(role); got != several {
				t.Errorf("tokens of %s: several that may %v: %t, want %t", names, role, got, several)
			}
		}
	}
}
