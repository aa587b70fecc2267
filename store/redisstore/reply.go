package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// exact is the greatest number that scripts reckon with: the numbers of Lua are exact up to it.
const exact = 1<<53 - 1

// Answers are read strictly, field by field. A malformedError says what is wrong with one that no script of ours gives: a server, or what
// stands between, that returns so may have done anything.
type malformedError struct{ error }

func malformed(format string, args ...any) error {
	return &malformedError{fmt.Errorf("redisstore: the server's answer is malformed: "+format, args...)}
}

func (e *malformedError) Unwrap() error { return e.error }

// unharmed calls what reads an answer: go-redis panics at a length that no memory has.
func unharmed(read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = malformed("reading it: %v", v)
		}
	}()
	return read()
}

// list reads an array, of a given length unless that is negative.
func list(reply any, length int) ([]any, error) {
	all, ok := reply.([]any)
	switch {
	case !ok:
		return nil, malformed("%s instead of an array", shown(reply))
	case length >= 0 && len(all) != length:
		return nil, malformed("an array of %d instead of %d", len(all), length)
	}
	return all, nil
}

// shown is a part of a reply for people.
func shown(reply any) string {
	switch v := reply.(type) {
	case nil:
		return "nothing"
	case string:
		if len(v) > 40 {
			v = v[:40] + "…"
		}
		return strconv.Quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	}
	return fmt.Sprintf("%T", reply)
}

// A row reads the fields of an answer one after the other. The first that is wrong is its error; those after it are zero.
type row struct {
	fields []any
	at     int
	err    error
}

func (r *row) next(what string) any {
	switch {
	case r.err != nil:
		return nil
	case r.at == len(r.fields):
		r.err = malformed("the %s is missing", what)
		return nil
	}
	r.at++
	return r.fields[r.at-1]
}

// text reads a text of at most so many bytes.
func (r *row) text(what string, most int) string {
	v := r.next(what)
	text, ok := v.(string)
	if r.err == nil && (!ok || len(text) > most) {
		r.err = malformed("the %s is %s; want at most %d bytes", what, shown(v), most)
	}
	if r.err != nil {
		return ""
	}
	return text
}

// number reads a whole number that is written as text.
func (r *row) number(what string, least, most int64) int64 {
	text := r.text(what, 20)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most || strconv.FormatInt(n, 10) != text {
		r.err = malformed("the %s is %q; want a number from %d to %d", what, text, least, most)
		return 0
	}
	return n
}

// count reads a whole number that is one.
func (r *row) count(what string, least, most int64) int64 {
	v := r.next(what)
	n, ok := v.(int64)
	if r.err == nil && (!ok || n < least || n > most) {
		r.err = malformed("the %s is %s; want a number from %d to %d", what, shown(v), least, most)
	}
	if r.err != nil {
		return 0
	}
	return n
}

// span reads how long something lasts, in µs.
func (r *row) span(what string) time.Duration {
	return time.Duration(r.count(what, 0, exact)) * time.Microsecond
}

// state reads a state; one that is empty is nil.
func (r *row) state() []byte {
	if text := r.text("state", store.MaxState); text != "" {
		return []byte(text)
	}
	return nil
}

// end is the error of the row, which must have no more fields.
func (r *row) end() error {
	if r.err == nil && r.at < len(r.fields) {
		r.err = malformed("%d fields too many", len(r.fields)-r.at)
	}
	return r.err
}

// referred returns an answer of acquire.lua, which may refer to one before it.
func referred(replies []any, at int) any {
	if n, ok := replies[at].(int64); ok && n < 0 && -n <= int64(at) {
		if held, is := replies[-n-1].([]any); is && len(held) > 0 && held[0] == any("held") {
			return held
		}
	}
	return replies[at]
}

// outcome reads an answer of acquire.lua.
func (s *Store) outcome(name string, reply any) store.Outcome {
	if token, ok := reply.(int64); ok && token > 0 && token <= exact {
		return store.Outcome{Grant: store.Grant{Token: token}}
	}
	fields, err := list(reply, -1)
	r := &row{fields: fields, err: err}
	out := s.read(name, r)
	if trouble := r.end(); trouble != nil {
		return store.Outcome{Err: store.AsUnknown(about(name, trouble))}
	}
	return out
}

// read reads what one claim is answered; what is wrong is the row's error.
func (s *Store) read(name string, r *row) store.Outcome {
	switch word := r.text("word", 16); word {
	case "granted":
		g := store.Grant{Token: r.count("token", 1, exact), Mark: r.number("mark", 0, math.MaxInt64), State: r.state(), ExpiredAge: r.span("time since the lease before")}
		return store.Outcome{Grant: g}
	case "held":
		held := r.record(name)
		if r.err == nil && held.Left <= 0 {
			r.err = malformed("it is held for no time")
		}
		return store.Outcome{Err: &store.HeldError{Record: held}}
	case "done":
		return store.Outcome{Err: &store.DoneError{Record: r.record(name)}}
	case "overflow":
		return store.Outcome{Err: fmt.Errorf("redisstore: the tokens of %q are used up: %w", name, store.ErrTokens)}
	default:
		return store.Outcome{Err: s.trouble(name, word, r)}
	}
}

// record reads holder, token, mark, left, age, state.
func (r *row) record(name string) store.Record {
	return store.Record{
		Name: name, Holder: r.text("holder", maxHolder), Token: r.count("token", 0, exact), Mark: r.number("mark", 0, math.MaxInt64),
		Left: r.span("time that is left"), Age: r.span("age"), State: r.state(),
	}
}

// maxHolder bounds a holder. What stands in a key that is shared with other libraries is theirs to choose: sharing.lua cuts it off there.
const maxHolder = store.MaxName

// mostKey bounds a key: one of ours, which has a name at its end, or one that is shared with other libraries, which can have a name in it.
const mostKey = mostShare + store.MaxName + 128

// mostError bounds what the server says of a command that it has refused. The longest that Redis says has 340 bytes.
const mostError = 1 << 10

// altered reads an answer of extend.lua and release.lua.
func (s *Store) altered(name string, reply any) error {
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return store.ErrLost
	}
	fields, err := list(reply, -1)
	r := &row{fields: fields, err: err}
	told := s.trouble(name, r.text("word", 16), r)
	if err := r.end(); err != nil {
		return store.AsUnknown(about(name, err))
	}
	return told
}

// trouble reads what attempt, in record.lua, answers when a step went wrong.
func (s *Store) trouble(name, word string, r *row) error {
	switch word {
	case "corrupt":
		return &CorruptError{Name: name, Key: r.text("key", mostKey), Wrong: r.text("fault", maxHolder), own: "{" + s.cfg.Prefix + ":"}
	case "failed":
		return about(name, s.failed(r.text("error", mostError)))
	}
	if r.err == nil {
		r.err = malformed("%q is no word of the scripts", word)
	}
	return nil
}

// failed is the error with which the server has refused a command of a script.
func (s *Store) failed(text string) error {
	explained, sure := s.refused(scriptError(scriptPlace.ReplaceAllString(text, "")))
	if !sure {
		explained = store.AsUnknown(explained)
	}
	return explained
}

// scriptPlace is where in a script an error was, which older servers put before it.
var scriptPlace = regexp.MustCompile(`^@?user_script: ?\d+: ?-?`)

// about is an error that names the name it is about.
func about(name string, err error) error { return fmt.Errorf("%q: %w", name, err) }

// A scriptError is what the server answered to a command of a script.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (scriptError) RedisError() {}

var _ redis.Error = scriptError("")

// A CorruptError says that a key is not as the store writes it, so that nobody can tell who holds a name. It harms that name alone, unless
// it is a key that many have in common, and has changed nothing.
type CorruptError struct {
	Name  string // whose it is; "" if it is not known
	Key   string
	Wrong string // what is wrong with it

	own string // what the store's own keys begin with
}

func (e *CorruptError) Error() string {
	if !strings.HasPrefix(e.Key, e.own) { // deleting it would lose what is not ours
		return fmt.Sprintf("redisstore: %q cannot be read: in key %q %s; the key belongs to something else: use another name, or another pattern for what is shared",
			e.Name, e.Key, e.Wrong)
	}
	return fmt.Sprintf("redisstore: %q cannot be read: in key %q %s; somebody else has written it. Make sure that nobody holds the name, then DEL the key:"+
		" what was remembered is gone with it, and tokens go on to grow with the server's clock", e.Name, e.Key, e.Wrong)
}

// errOutOfStep is about an answer that belongs to another request.
var errOutOfStep = errors.New("it belongs to another request: the connection, or what stands between, mixes up answers")

// tagged reads a whole answer, which begins with the tag of its request. One of numbers alone is a text, and so is the usual refusal.
func tagged(tag string, reply any) (any, error) {
	if text, ok := reply.(string); ok {
		return packed(tag, text)
	}
	fields, err := list(reply, 2)
	if err != nil {
		return nil, err
	}
	if fields[0] != any(tag) {
		return nil, malformed("%w", errOutOfStep)
	}
	return fields[1], nil
}

// packed reads a text: behind the tag a space and whole numbers, or '!' and the refusal of one name.
func packed(tag, text string) (any, error) {
	rest, ok := strings.CutPrefix(text, tag)
	if !ok {
		return nil, malformed("%w", errOutOfStep)
	}
	if rest, ok := strings.CutPrefix(rest, "!"); ok && len(rest) >= 3*8 {
		all, err := numbers(rest[:3*8])
		if err != nil {
			return nil, err
		}
		return []any{[]any{"held", rest[3*8:], all[0], "0", all[1], all[2], ""}}, nil
	}
	if rest, ok := strings.CutPrefix(rest, " "); ok && len(rest)%8 == 0 {
		return numbers(rest)
	}
	return nil, malformed("%s instead of numbers", shown(text))
}

// numbers reads whole numbers, each of which struct.pack has made eight bytes of.
func numbers(text string) ([]any, error) {
	all := make([]any, len(text)/8)
	for i := range all {
		v := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[8*i : 8*i+8])))
		if v < -exact || v > exact || v != math.Trunc(v) {
			return nil, malformed("%v instead of a whole number", v)
		}
		all[i] = int64(v)
	}
	return all, nil
}
