package redisstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A resp is a value of Redis's protocol: the first byte says which kind, then a text or some values.
type resp struct {
	kind byte
	text string
	of   []*resp // of an array
	raw  string  // what is sent instead, as it is
}

func readResp(r *bufio.Reader) (*resp, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("a short line")
	}
	v := &resp{kind: line[0], text: line[1 : len(line)-2]}
	n, _ := strconv.Atoi(v.text)
	switch {
	case v.kind == '$' && n >= 0:
		body := make([]byte, n+2)
		_, err = io.ReadFull(r, body)
		v.text = string(body[:n])
	case v.kind == '$' || v.kind == '*' && n < 0:
		v.raw = line
	case v.kind == '*' || v.kind == '>' || v.kind == '%' || v.kind == '~':
		if v.kind == '%' {
			n *= 2
		}
		v.of = make([]*resp, 0, n)
		for range n {
			one, err := readResp(r)
			if err != nil {
				return nil, err
			}
			v.of = append(v.of, one)
		}
	}
	return v, err
}

func (v *resp) String() string {
	switch {
	case v.raw != "":
		return v.raw
	case v.kind == '$':
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v.text), v.text)
	case v.of != nil || v.kind == '*':
		n := len(v.of)
		if v.kind == '%' {
			n /= 2
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%c%d\r\n", v.kind, n)
		for _, one := range v.of {
			b.WriteString(one.String())
		}
		return b.String()
	}
	return fmt.Sprintf("%c%s\r\n", v.kind, v.text)
}

// parts are all values within, the outermost first.
func (v *resp) parts() []*resp {
	all := []*resp{v}
	for _, one := range v.of {
		all = append(all, one.parts()...)
	}
	return all
}

// A liar stands between a client and a server, and changes what the server answers.
type liar struct {
	listener net.Listener
	server   string

	mu   sync.Mutex
	lie  func(*resp) []*resp // answers what to send instead; nil for the truth
	told int                 // lies
}

func newLiar(t testing.TB, server string) *liar {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &liar{listener: l, server: server}
	t.Cleanup(func() { l.Close() })
	go p.serve()
	return p
}

func (p *liar) url() string { return "redis://" + p.listener.Addr().String() }

// lying has lie change the answers from now on.
func (p *liar) lying(lie func(*resp) []*resp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lie = lie
}

func (p *liar) lies() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

func (p *liar) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		go func() {
			io.Copy(server, client)
			server.Close()
		}()
		go func() {
			p.answers(client, bufio.NewReader(server))
			client.Close()
			server.Close()
		}()
	}
}

func (p *liar) answers(client io.Writer, server *bufio.Reader) {
	for {
		v, err := readResp(server)
		if err != nil {
			return
		}
		for _, said := range p.instead(v) {
			if _, err := io.WriteString(client, said.String()); err != nil {
				return
			}
		}
	}
}

func (p *liar) instead(v *resp) []*resp {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lie == nil {
		return []*resp{v}
	}
	before := v.String()
	said := p.lie(v)
	if len(said) != 1 || said[0].String() != before {
		p.told++
	}
	return said
}

// nonsense are values that no script answers where a number, a word or a text is to be.
var nonsense = []string{
	":-1\r\n", "+OK\r\n", ":7\r\n", ":99\r\n", ":9223372036854775807\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", "$3\r\nnan\r\n", "$2\r\n-1\r\n", "$4\r\n1e15\r\n",
	"$20\r\n99999999999999999999\r\n", "$1\r\n0\r\n", "$2\r\n01\r\n", "+\r\n", "-ERR something went wrong\r\n", "-NOSCRIPT No matching script\r\n", "_\r\n", "#t\r\n", ",nan\r\n", ",1.5\r\n",
	"(3492890328409238509324850943850943825024385\r\n", "%1\r\n+a\r\n+b\r\n", "~1\r\n:1\r\n", "*1\r\n*1\r\n*0\r\n", "$7\r\ngranted\r\n", "$4\r\nheld\r\n", "$8\r\noverflow\r\n",
	"=7\r\ntxt:abc\r\n", "$9223372036854775807\r\n", "*9223372036854775807\r\n", "*4611686018427387904\r\n", "?what\r\n", "$abc\r\n", "$-7\r\n", ":\r\n", ":abc\r\n",
}

// garble changes one value of an answer, in a way that no true answer has, at random.
func garble(rng *rand.Rand, v *resp) []*resp {
	all := v.parts()
	one := all[rng.IntN(len(all))]
	switch kind := rng.IntN(8); {
	case kind == 0 && len(one.of) > 0: // one too few
		at := rng.IntN(len(one.of))
		one.of = slices.Delete(one.of, at, at+1)
	case kind == 1 && len(one.of) > 0: // one too many
		one.of = append(one.of, one.of[rng.IntN(len(one.of))])
	case kind == 2 && len(one.of) > 1: // in another order
		rng.Shuffle(len(one.of), func(i, k int) { one.of[i], one.of[k] = one.of[k], one.of[i] })
	default:
		one.raw = nonsense[rng.IntN(len(nonsense))]
	}
	return []*resp{v}
}
