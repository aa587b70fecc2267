package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// A route is one operation of the API.
type route struct {
	method, path string
	summary      string
	role         role
	takes        bool // it takes or ends a lease of the caller, for which no token is needed without Tokens
	query        []parameter
	header       []parameter
	key          bool         // the header Idempotency-Key is read
	in           reflect.Type // of the body; nil for none
	needed       bool         // the body must be there
	out          reflect.Type // of the response; nil for 204
	stream       string       // the media type of a response that goes on, "" if it does not
	codes        []string     // of the problems that are particular to it
	do           func(*call) (any, error)
}

// A parameter is one of the query, or a header. With a most it is a whole number, from least to most.
type parameter struct {
	name, about string
	least, most int64
	needed      bool
}

// A call is one request.
type call struct {
	context.Context
	*http.Request
	w       http.ResponseWriter
	server  *Server
	caller  caller
	query   []parameter // those of the route
	body    any         // a pointer to route.in
	arrived time.Time   // when it was received
}

// The limits on a request.
const (
	maxBody  = 64 << 10
	maxQuery = 4 << 10
)

// serve returns the handler of a route.
func (s *Server) serve(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		c := &call{Context: request.Context(), Request: request, w: w, server: s, query: r.query, arrived: time.Now()}
		out, err := c.do(&r)
		switch {
		case err != nil:
			s.problemOf(c.Context, err).write(w)
		case r.stream != "":
		case out == nil:
			writeNothing(w, http.StatusNoContent)
		default:
			body, err := json.Marshal(out)
			if err != nil {
				s.problemOf(c.Context, fmt.Errorf("writing a response: %w", err)).write(w)
				return
			}
			writeBytes(w, http.StatusOK, "application/json", body)
		}
	}
}

// do does what a route does, for a caller that may.
func (c *call) do(r *route) (any, error) {
	var err error
	if c.caller, err = c.server.authenticate(c.Request); err != nil {
		return nil, err
	}
	if err := c.server.permit(r, c.caller); err != nil {
		return nil, err
	}
	if err := c.checkQuery(); err != nil {
		return nil, err
	}
	if err := c.checkPath(); err != nil {
		return nil, err
	}
	text, err := c.read() // also if there should be none: what is left unread could arrive without a deadline
	if err != nil {
		return nil, err
	}
	if r.in != nil {
		c.body = reflect.New(r.in).Interface()
		if err := c.parse(text, r.needed); err != nil {
			return nil, err
		}
	}
	if r.stream != "" && c.Method == http.MethodHead { // of a body that does not end nothing is told; it would keep its place until the client goes
		c.streams(r.stream)
		return nil, nil
	}
	// Waiting takes longer than reading may.
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	if r.method == http.MethodGet && r.stream == "" {
		defer c.within(storeWithin)()
	}
	return r.do(c)
}

// streams sets the headers of a response that does not end. A proxy must pass each line on as it comes: nginx keeps lines until it has
// 4 or 8 KiB of them, unless X-Accel-Buffering is no (https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering).
func (c *call) streams(kind string) {
	c.w.Header().Set("Content-Type", kind)
	c.w.Header().Set("X-Accel-Buffering", "no")
}

// storeWithin bounds how long a request waits for the store that reads a list, or is an action. Long lists of stores that are read from the beginning take long.
const storeWithin = 2 * time.Minute

// within bounds how long a call waits for the store, until end is called.
func (c *call) within(d time.Duration) (end func()) {
	whole := c.Context
	ctx, cancel := context.WithTimeout(whole, d)
	c.Context = ctx
	return func() {
		cancel()
		c.Context = whole
	}
}

// checkPath refuses names in the path that cannot be names.
func (c *call) checkPath() error {
	for _, part := range [...]string{"name", "job", "id"} {
		var invalid *soloist.InvalidError
		if text := c.PathValue(part); text != "" && errors.As(store.CheckName(text), &invalid) {
			return bad(part, invalid.Rule)
		}
	}
	return nil
}

// checkQuery refuses parameters that are unknown, or given twice.
func (c *call) checkQuery() error {
	if c.URL.RawQuery == "" {
		return nil
	}
	if len(c.URL.RawQuery) > maxQuery {
		return problem(http.StatusRequestURITooLong, codeTooLarge, "the query is too long")
	}
	query, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return bad("query", "it is not name=value&name=value, with %XX for special characters")
	}
	for name, values := range query {
		i := slices.IndexFunc(c.query, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return bad(name, "there is no such parameter")
		case len(values) > 1:
			return bad(name, "give it once")
		case !utf8.ValidString(values[0]):
			return bad(name, "give UTF-8")
		}
	}
	return nil
}

// number returns a parameter of the route that is a number, or otherwise if it is absent and not needed.
func (c *call) number(name string, otherwise int64) (int64, error) {
	i := slices.IndexFunc(c.query, func(p parameter) bool { return p.name == name })
	return c.query[i].number(c.URL.Query(), otherwise)
}

// number reads the parameter, which must be a number.
func (p parameter) number(query url.Values, otherwise int64) (int64, error) {
	if !query.Has(p.name) {
		if p.needed {
			return 0, bad(p.name, fmt.Sprintf("give a whole number from %d to %d", p.least, p.most))
		}
		return otherwise, nil
	}
	n, err := strconv.ParseInt(query.Get(p.name), 10, 64)
	if err != nil || n < p.least || n > p.most {
		return 0, bad(p.name, fmt.Sprintf("must be a whole number from %d to %d", p.least, p.most))
	}
	return n, nil
}

// read returns the body.
func (c *call) read() ([]byte, error) {
	if c.Request.Body == http.NoBody {
		return nil, nil
	}
	text, err := io.ReadAll(c.Request.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, codeTooLarge,
			fmt.Sprintf("the body is larger than %d bytes", maxBody))
	case err != nil:
		return nil, bad("body", "it could not be read in time")
	}
	return text, nil
}

// parse parses the body into c.body. A body that is absent means its defaults, unless it is needed.
func (c *call) parse(text []byte, needed bool) error {
	if len(bytes.TrimSpace(text)) == 0 && !needed {
		return nil
	}
	if !isJSON(c.Header.Get("Content-Type")) {
		p := problem(http.StatusUnsupportedMediaType, codeMediaType,
			"the body must be JSON, and the header Content-Type application/json (curl --json)")
		p.header = http.Header{"Accept": {"application/json"}}
		return p
	}
	if !utf8.Valid(text) || escapesHalf(text) { // the decoder would replace that, and two names could become one
		return bad("body", "give UTF-8, and no half of a character as an escape")
	}
	// The decoder takes null for an object without fields.
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return bad("body", "there must be one JSON object")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(c.body); err != nil {
		return notJSON(err)
	}
	if len(bytes.Trim(text[in.InputOffset():], " \t\r\n")) > 0 {
		return bad("body", "there must be one JSON object, and nothing after it")
	}
	return nil
}

// escapesHalf reports whether a JSON text escapes half a character of two \uXXXX without the other half.
func escapesHalf(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 == len(text) {
			return false
		}
		text = text[i:]
		half := escaped(text)
		if !utf16.IsSurrogate(half) {
			text = text[2:]
			continue
		}
		if utf16.DecodeRune(half, escaped(text[6:])) == utf8.RuneError {
			return true
		}
		text = text[12:]
	}
}

// escaped returns the number of the \uXXXX with which a text begins, and -1 if it does not.
func escaped(text []byte) rune {
	if len(text) < 6 || string(text[:2]) != `\u` {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// isJSON reports whether a media type is that of JSON.
func isJSON(text string) bool {
	const json = "application/json"
	if text == json {
		return true
	}
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && kind == json
}

// notJSON returns which field cannot be read, and why.
func notJSON(err error) *Problem {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		field := kind.Field
		if field == "" {
			field = "body"
		}
		return bad(field, fmt.Sprintf("must be %s, not %s", jsonKind(kind.Type), kind.Value))
	}
	if name, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		name, _ = strconv.Unquote(name)
		return bad(name, "there is no such field")
	}
	return bad("body", "it is not a JSON object")
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// writeWithin bounds how long a client may not read what it is sent.
const writeWithin = 10 * time.Second

func writeBytes(w http.ResponseWriter, status int, kind string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	header := w.Header()
	header["Content-Type"] = []string{kind}
	if len(body) > 1024 { // http.Server sets that of a short response, for less
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone reads nothing
}

// writeNothing writes a response without a body. What precedes it can take longer than http.Server.WriteTimeout.
func writeNothing(w http.ResponseWriter, status int) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	w.WriteHeader(status)
}

// maxSeconds is ten years, as store.MaxTTL is, and maxWait how long a request can wait for a lease.
const (
	maxSeconds = 10 * 365 * 24 * 3600
	maxWait    = 600
)

// seconds returns a duration that a caller gave as a number of seconds, in whole milliseconds. It is rounded up: 0 would mean something else.
func seconds(field string, n float64) (time.Duration, error) {
	if n != n || n < 0 || n > maxSeconds {
		return 0, bad(field, fmt.Sprintf("must be a number of seconds from 0 to %d", maxSeconds))
	}
	return time.Duration(math.Ceil(n*1000)) * time.Millisecond, nil
}
