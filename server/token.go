package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"
)

// A role is what a caller may do. Each role may do what those before it may.
type role int

const (
	roleRead    role = iota + 1 // lists
	roleOperate                 // takes leases; triggers, pauses and resumes jobs; releases by force
	roleAdmin                   // forgets jobs
)

var roles = map[string]role{"read": roleRead, "operate": roleOperate, "admin": roleAdmin}

func (r role) String() string {
	for name, is := range roles {
		if is == r {
			return name
		}
	}
	return "none"
}

// Tokens are the secrets by which callers are known. Only their hashes are kept. They are safe for concurrent use.
type Tokens struct{ all atomic.Pointer[[]tokenEntry] }

// Replace replaces the tokens of t by those of other. A Server that uses t refuses requests with a token that is gone, and
// grants nothing to those that wait with one. It ends holds and streams of events with such a token before it would renew the lease, or send the
// next event.
func (t *Tokens) Replace(other *Tokens) { t.all.Store(other.all.Load()) }

type tokenEntry struct {
	name   string
	role   role
	hash   [sha256.Size]byte
	prefix string
}

// NewToken returns a new secret of 256 random bits, and its line for ReadTokens. Names that do not begin with prefix are refused to its caller.
func NewToken(name, roleName, prefix string) (secret, line string, err error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	secret = "soloist_" + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(secret))
	line = strings.TrimSpace(fmt.Sprintf("%s %s sha256:%s %s", name, roleName, hex.EncodeToString(hash[:]), prefix))
	read, err := parseToken(line)
	switch {
	case err != nil:
		return "", "", err
	case read.name != name || read.prefix != prefix: // which would be for other names, or for all
		return "", "", errors.New("neither the name nor the prefix may have a space: the words of a line are separated by them")
	case strings.HasPrefix(name, "#"):
		return "", "", errors.New("the name must not begin with #: such lines are comments")
	}
	return secret, line, nil
}

// ReadTokens reads a line for each token: its name, its role (read, operate or admin), the SHA-256 of the secret as sha256:HEX, and optionally
// the prefix of the names that it is for. Empty lines and those that begin with # are skipped. NewToken makes such lines. Each must end with a
// newline: without its last bytes a line could have another prefix, or none.
func ReadTokens(r io.Reader) (*Tokens, error) {
	var all []tokenEntry
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	n := 0
	for whole := range strings.Lines(string(text)) {
		n++
		line := strings.TrimSpace(whole)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		entry, err := parseToken(line)
		if err == nil && !strings.HasSuffix(whole, "\n") {
			err = errors.New("the file ends within it: write it to its end, and a newline")
		}
		if err == nil && slices.ContainsFunc(all, func(other tokenEntry) bool { return other.name == entry.name || other.hash == entry.hash }) {
			err = errors.New("another line has the same name or hash")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, entry)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no token: nobody could call the service")
	}
	tokens := &Tokens{}
	tokens.all.Store(&all)
	return tokens, nil
}

// parseToken reads a line. Its errors do not contain the hash, for it may be a secret that was put there by mistake.
func parseToken(line string) (tokenEntry, error) {
	words := strings.Fields(line)
	if len(words) < 3 || len(words) > 4 {
		return tokenEntry{}, errors.New("write NAME ROLE sha256:HEX, and optionally a prefix of names")
	}
	e := tokenEntry{name: words[0], role: roles[words[1]]}
	if store.CheckName(e.name) != nil || len(e.name) > 60 {
		return e, errors.New("the name must have 1 to 60 bytes of UTF-8 without control characters")
	}
	if e.role == 0 {
		return e, fmt.Errorf("%q is no role: write read, operate or admin", words[1])
	}
	text, is := strings.CutPrefix(words[2], "sha256:")
	hash, err := hex.DecodeString(text)
	if !is || err != nil || len(hash) != len(e.hash) {
		return e, errors.New("the third word must be sha256: and the 64 hexadecimal digits of the hash of the secret, not the secret itself")
	}
	copy(e.hash[:], hash)
	if len(words) == 4 {
		e.prefix = words[3]
	}
	return e, nil
}

// A caller is who sent a request.
type caller struct {
	name   string // of the token; "" without Tokens
	role   role
	prefix string // of the names that it may use
	from   string // its address, for people
}

// who is what lists and logs show.
func (c caller) who() string {
	if c.name != "" {
		return c.name
	}
	return "http " + c.from
}

// authenticate returns the caller of a request.
func (s *Server) authenticate(r *http.Request) (caller, error) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "local"
	}
	c := caller{from: from}
	if s.Tokens == nil {
		c.role = roleRead
		if s.OpenActions {
			c.role = roleAdmin
		}
		return c, nil
	}
	secret, is := secretOfRequest(r)
	if e, known := s.Tokens.find(secret); known && is {
		c.name, c.role, c.prefix = e.name, e.role, e.prefix
	}
	if c.role == 0 {
		return c, unauthenticated()
	}
	return c, nil
}

// unauthenticated is the problem of a request without a token, or with one that is not known.
func unauthenticated() *Problem {
	p := problem(http.StatusUnauthorized, codeUnauthenticated, "send a token that this service knows in the header Authorization: Bearer TOKEN")
	p.header = http.Header{"Www-Authenticate": {`Bearer realm="soloist"`}}
	return p
}

// stillKnown reports whether the caller of a request that goes on would be let in again, with the same rights.
func (c *call) stillKnown() bool {
	now, err := c.server.authenticate(c.Request)
	return err == nil && now == c.caller
}

// find returns the entry of a secret.
func (t *Tokens) find(secret string) (entry tokenEntry, known bool) {
	hash := sha256.Sum256([]byte(secret))
	for _, e := range *t.all.Load() { // all of them, so that the time does not show which one it is
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			entry, known = e, true
		}
	}
	return entry, known
}

// several reports whether more than one token has a role, or one that may do more.
func (t *Tokens) several(r role) bool {
	if t == nil {
		return false
	}
	n := 0
	for _, e := range *t.all.Load() {
		if e.role >= r {
			n++
		}
	}
	return n > 1
}

// permit returns nil if the caller may call the route.
func (s *Server) permit(r *route, c caller) error {
	if c.role >= r.role || s.Tokens == nil && r.takes {
		return nil
	}
	if s.Tokens == nil {
		return problem(http.StatusForbidden, codeForbidden, "this service has no tokens, so it refuses actions of operators; start it with --tokens, or with --open-actions")
	}
	return problem(http.StatusForbidden, codeForbidden, fmt.Sprintf("the token %s has the role %s, and this needs %s", c.name, c.role, r.role))
}

// mayUse returns nil if the caller's token is for a name.
func (c caller) mayUse(name string) error {
	if strings.HasPrefix(name, c.prefix) {
		return nil
	}
	return problem(http.StatusForbidden, codeForbidden, fmt.Sprintf("the token %s is for names that begin with %q", c.name, c.prefix))
}
