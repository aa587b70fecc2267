package store

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of names, states and times. Every backend can keep them.
const (
	MaxName  = 255                       // bytes of a name or holder
	MaxState = 64 << 10                  // bytes of a state
	MinTTL   = time.Millisecond          // of a lease
	MaxTTL   = 10 * 365 * 24 * time.Hour // of a lease or linger
)

// CheckName returns an *InvalidError if name cannot be the name of a record.
func CheckName(name string) error { return checkText("name", name) }

// CheckNames returns an *InvalidError if names has no name, or one that cannot be the name of a record. Watch refuses these.
func CheckNames(names []string) error {
	if len(names) == 0 {
		return &InvalidError{"names", "[]", "give at least one name"}
	}
	for _, name := range names {
		if err := CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

func checkText(what, s string) error {
	invalid := func(format string, args ...any) error {
		shown := s
		if len(shown) > 60 {
			shown = shown[:60] + "…"
		}
		return &InvalidError{what, strconv.Quote(shown), fmt.Sprintf(format, args...)}
	}
	switch {
	case s == "":
		return invalid("is empty; give 1 to %d bytes", MaxName)
	case len(s) > MaxName:
		return invalid("has %d bytes; give at most %d", len(s), MaxName)
	case plain(s):
		return nil
	case !utf8.ValidString(s):
		return invalid("is not UTF-8")
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return invalid("has the control character %U at byte %d; leave control characters out", r, i)
		}
	}
	return nil
}

// plain reports whether s has only printable ASCII characters, as nearly all names have.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return &InvalidError{"TTL", ttl.String(), fmt.Sprintf("must be between %v and %v", MinTTL, MaxTTL)}
	}
	return nil
}

func checkLease(name, holder string, token, mark int64, state []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := checkText("holder", holder); err != nil {
		return err
	}
	switch {
	case token <= 0:
		return &InvalidError{"token", strconv.FormatInt(token, 10), "must be the token of a grant, > 0"}
	case mark < 0:
		return &InvalidError{"mark", strconv.FormatInt(mark, 10), "must be >= 0"}
	case len(state) > MaxState:
		return &InvalidError{"state", fmt.Sprintf("of %d bytes", len(state)), fmt.Sprintf("must have at most %d bytes", MaxState)}
	}
	return nil
}

// Check returns an *InvalidError if a field of the claim is not valid. Stores call it before anything else.
func (c Claim) Check() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if err := checkText("holder", c.Holder); err != nil {
		return err
	}
	if c.Above < 0 {
		return &InvalidError{"above", strconv.FormatInt(c.Above, 10), "must be a token, or 0 for any"}
	}
	return checkTTL(c.TTL)
}

// Check returns an *InvalidError if a field of the extension is not valid.
func (e Extension) Check() error {
	if err := checkLease(e.Name, e.Holder, e.Token, e.Mark, e.State); err != nil {
		return err
	}
	return checkTTL(e.TTL)
}

// Check returns an *InvalidError if a field of the release is not valid.
func (r Release) Check() error {
	if err := checkLease(r.Name, r.Holder, r.Token, r.Mark, r.State); err != nil {
		return err
	}
	switch {
	case r.Linger < 0 || r.Linger > MaxTTL:
		return &InvalidError{"linger", r.Linger.String(), fmt.Sprintf("must be between 0 and %v", MaxTTL)}
	case r.Retain < 0:
		return &InvalidError{"retain", r.Retain.String(), "must be >= 0"}
	}
	return nil
}

// Check returns an *InvalidError if a field of the filling is not valid.
func (f Filling) Check() error {
	return Release{Name: f.Name, Holder: "-", Token: 1, Mark: f.Mark, State: f.State, Retain: f.Retain}.Check()
}

// CheckQueued returns an *InvalidError if c is not valid for Queuer.Queue.
func CheckQueued(c Claim) error {
	if c.Mark != 0 {
		return &InvalidError{"mark", strconv.FormatInt(c.Mark, 10), "must be 0 for a claim that waits in the queue"}
	}
	if c.Above != 0 {
		return &InvalidError{"above", strconv.FormatInt(c.Above, 10), "must be 0 for a claim that waits in the queue"}
	}
	return c.Check()
}

// CheckChoice returns an *InvalidError if names or c are not valid for Chooser.Choose.
func CheckChoice(names []string, c Claim) error {
	if err := CheckNames(names); err != nil {
		return err
	}
	if c.Mark != 0 {
		return &InvalidError{"mark", strconv.FormatInt(c.Mark, 10), "must be 0 when one of several names is chosen"}
	}
	if c.Above != 0 {
		return &InvalidError{"above", strconv.FormatInt(c.Above, 10), "must be 0 when one of several names is chosen"}
	}
	for _, c.Name = range names {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}
