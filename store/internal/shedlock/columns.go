package shedlock

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// Columns are the names of the four columns of ShedLock's table, in the order of its ColumnNames.
type Columns struct{ Name, LockUntil, LockedAt, LockedBy string }

// Documented has the names that ShedLock documents, which the statements of the stores have too.
var Documented = Columns{"name", "lock_until", "locked_at", "locked_by"}

// ColumnsOption is the option of URLs that ParseColumns reads.
const ColumnsOption = "shedlock_columns"

// columnsRule describes what ParseColumns takes.
const columnsRule = "must be four names of columns with commas between: of the lock's name, lock_until, locked_at and locked_by, as shedlock_columns=id,until,since,owner"

// ParseColumns reads the names from the value of the option.
func ParseColumns(value string) (Columns, error) {
	all := strings.Split(value, ",")
	if len(all) != 4 {
		return Columns{}, &store.InvalidError{What: "option " + ColumnsOption, Value: shown(value), Rule: columnsRule}
	}
	for _, name := range all {
		if name == "" {
			return Columns{}, &store.InvalidError{What: "option " + ColumnsOption, Value: shown(value), Rule: columnsRule}
		}
	}
	return Columns{all[0], all[1], all[2], all[3]}, nil
}

// All returns the names in the order of the fields.
func (c Columns) All() []string { return []string{c.Name, c.LockUntil, c.LockedAt, c.LockedBy} }

// String returns c as ParseColumns reads it.
func (c Columns) String() string { return strings.Join(c.All(), ",") }

// Filled returns c with the documented names in place of empty ones.
func (c Columns) Filled() Columns {
	or := func(name *string, documented string) {
		if *name == "" {
			*name = documented
		}
	}
	or(&c.Name, Documented.Name)
	or(&c.LockUntil, Documented.LockUntil)
	or(&c.LockedAt, Documented.LockedAt)
	or(&c.LockedBy, Documented.LockedBy)
	return c
}

// identifier matches what both kinds of servers take between quotes.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Check returns an error if In cannot put c, which is filled, into the statements of a store: one of the .sql files in files.
//
// A name must not be another word of the statements, since In would make two things one: a column of soloist, or of a part of a statement. A
// single letter may be one: there it only stands for a table.
func (c Columns) Check(files fs.FS) error {
	if c == Documented {
		return nil
	}
	invalid := func(name, rule string) error {
		return &store.InvalidError{What: "ShedLock's column", Value: shown(name), Rule: rule}
	}
	words, err := words(files)
	if err != nil {
		return err
	}
	before := map[string]bool{}
	for i, name := range c.All() {
		lower := strings.ToLower(name)
		switch {
		case !identifier.MatchString(name):
			return invalid(name, "must be 1 to 63 of A to Z, a to z, 0 to 9 and _, and not begin with a digit")
		case before[lower]:
			return invalid(name, "must be the name of one column: four columns have four names")
		case name != Documented.All()[i] && lower == Documented.All()[i]:
			return invalid(name, "must be in small letters, as "+lower+": the server does not tell them from capital ones that ShedLock writes")
		case name != Documented.All()[i] && len(name) > 1 && words[lower]:
			return invalid(name, "is a word of soloist's statements, such as the name of a column of its own: give the column another name, in the table and in each JVM")
		}
		before[lower] = true
	}
	return nil
}

// words returns the words of the statements in files, in lower case.
func words(files fs.FS) (map[string]bool, error) {
	all := map[string]bool{}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("reading the statements: %w", err)
		}
		each(string(text), func(word string, code bool) {
			if code {
				all[strings.ToLower(word)] = true
			}
		})
		return nil
	})
	return all, err
}

// In returns a statement, or a part of one, with c in place of the documented names. The names are quoted by quote. Comments, and what is in
// quotes, stay as they are.
func (c Columns) In(text string, quote byte) string {
	if c == Documented {
		return text
	}
	var b strings.Builder
	each(text, func(part string, code bool) {
		name := ""
		if code {
			name = c.of(part)
		}
		if name == "" {
			b.WriteString(part)
			return
		}
		b.WriteByte(quote)
		b.WriteString(name)
		b.WriteByte(quote)
	})
	return b.String()
}

// of returns the name of the column that is documented under a name, or "".
func (c Columns) of(documented string) string {
	switch documented {
	case Documented.Name:
		return c.Name
	case Documented.LockUntil:
		return c.LockUntil
	case Documented.LockedAt:
		return c.LockedAt
	case Documented.LockedBy:
		return c.LockedBy
	}
	return ""
}

// each calls do for each part of a statement, in order: a word of the code, or anything else.
func each(text string, do func(part string, code bool)) {
	for len(text) > 0 {
		n, code := next(text)
		do(text[:n], code)
		text = text[n:]
	}
}

// next returns the length of the first part of text, and whether it is a word of the code.
func next(text string) (length int, code bool) {
	switch first := text[0]; {
	case strings.HasPrefix(text, "--"):
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			return end, false
		}
		return len(text), false
	case first == '\'' || first == '"' || first == '`':
		if end := strings.IndexByte(text[1:], first); end >= 0 {
			return end + 2, false
		}
		return len(text), false
	case !inWord(first):
		return 1, false
	}
	for length < len(text) && inWord(text[length]) {
		length++
	}
	return length, true
}

func inWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

func shown(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}
