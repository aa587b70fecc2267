package server

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
)

// A ticket is what a lease string has. Lists show the holder of a lease, but the secret of which it is a hash is in
// the ticket alone: so only its holder can renew or release it, and the service keeps nothing.
type ticket struct {
	Kind    soloist.Kind
	Name    string
	Job     string
	Limit   int
	Permit  int
	Replica string
	Secret  string
	Token   int64
	TTL     int64 // in milliseconds
	AtLeast int64 // in milliseconds
	Plain   bool  // as Detached.Plain
	Element *elementTerm
}

// secretSize is how many bytes the secret of a ticket has, and the hash of it in the holder.
const secretSize = 20

// ticketForm is the first byte of a ticket. Another one is for another form.
const ticketForm = 1

// ticketText writes bytes in characters that a path may have.
var ticketText = base64.RawURLEncoding.Strict()

// String returns the lease string: the texts of the ticket, each with its length before it, and the numbers.
func (t ticket) String() string {
	e := elementTerm{}
	if t.Element != nil {
		e = *t.Element
	}
	plain := 0
	if t.Plain {
		plain = 1
	}
	raw := append(make([]byte, 0, 256), ticketForm)
	for _, text := range [...]string{string(t.Kind), t.Name, t.Job, t.Replica, t.Secret} {
		raw = append(binary.AppendUvarint(raw, uint64(len(text))), text...)
	}
	for _, n := range [...]int64{
		t.Token, t.TTL, t.AtLeast, int64(t.Limit), int64(t.Permit), int64(plain), int64(e.Attempts), e.Backoff, e.Retain,
	} {
		raw = binary.AppendUvarint(raw, uint64(n))
	}
	return ticketText.EncodeToString(raw)
}

// maxTicket bounds a lease string.
const maxTicket = 4 << 10

// parseTicket reads a lease string. What its fields are to be is checked where they are used, as of a request.
func parseTicket(text string) (ticket, error) {
	if len(text) > maxTicket || strings.ContainsAny(text, "\r\n") { // which base64 skips
		return ticket{}, notALease()
	}
	raw, err := ticketText.DecodeString(text)
	if err != nil || len(raw) == 0 || raw[0] != ticketForm {
		return ticket{}, notALease()
	}
	r := ticketReader{all: string(raw), rest: raw[1:]}
	t := ticket{Kind: soloist.Kind(r.text()), Name: r.text(), Job: r.text(), Replica: r.text(), Secret: r.text()}
	t.Token, t.TTL, t.AtLeast = r.number(math.MaxInt64), r.number(math.MaxInt64), r.number(math.MaxInt64)
	t.Limit, t.Permit, t.Plain = int(r.number(math.MaxInt32)), int(r.number(math.MaxInt32)), r.number(1) == 1
	e := elementTerm{int(r.number(math.MaxInt32)), r.number(math.MaxInt64), r.number(math.MaxInt64)}
	if e != (elementTerm{}) {
		t.Element = &e
	}
	if r.bad || len(r.rest) > 0 || len(t.Secret) != secretSize || t.Token <= 0 || t.TTL <= 0 {
		return ticket{}, notALease()
	}
	return t, nil
}

func notALease() *Problem { return bad("lease", "give the lease as it was granted") }

// A ticketReader reads the parts of a ticket.
type ticketReader struct {
	all  string
	rest []byte // of all
	bad  bool   // a part was not there, or not as it is written
}

// number reads a number that is at most most, in as few bytes as it is written.
func (r *ticketReader) number(most uint64) int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > most || size > 1 && r.rest[size-1] == 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

func (r *ticketReader) text() string {
	n := r.number(uint64(len(r.rest)))
	if n > int64(len(r.rest)) {
		r.bad, n = true, 0
	}
	text := r.all[len(r.all)-len(r.rest):][:n]
	r.rest = r.rest[n:]
	return text
}

var holderText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// holder returns the holder of the lease in the store.
func (t ticket) holder() string {
	var text [64]byte
	hash := sha256.Sum256(append(append(text[:0], "soloist lease\x00"...), t.Secret...))
	return t.Replica + "#" + string(holderText.AppendEncode(text[:0], hash[:secretSize]))
}

// detached returns the lease that a ticket is for.
func (t ticket) detached() soloist.Detached {
	return soloist.Detached{
		Kind: t.Kind, Name: t.Name, Job: t.Job, Limit: t.Limit, Permit: t.Permit,
		Holder: t.holder(), Token: t.Token, Plain: t.Plain,
	}
}

// client returns the client for what is done with the lease.
func (t ticket) client(c *soloist.Client) *soloist.Client {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return c.With(soloist.Options{TTL: ms(t.TTL), AtLeast: ms(t.AtLeast)})
}

// subject is the name by which a caller's prefix goes.
func (t ticket) subject() string { return subjectOf(t.Kind, t.Name, t.Job) }
