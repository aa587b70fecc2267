package storetest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// naming bends the names that reach the backend, holding those that holders.
func naming(f func(string) string) func(testing.TB) bend {
	return mapping(f, func(holder string) string { return holder })
}

func holding(f func(string) string) func(testing.TB) bend {
	return mapping(func(name string) string { return name }, f)
}

func mapping(name, holder func(string) string) func(testing.TB) bend {
	return always(bend{
		acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			c.Name, c.Holder = name(c.Name), holder(c.Holder)
			return acquire(s, c)
		},
		extend: func(s *memstore.Store, e store.Extension) error {
			e.Name, e.Holder = name(e.Name), holder(e.Holder)
			return extend(s, e)
		},
		release: func(s *memstore.Store, r store.Release) error {
			r.Name, r.Holder = name(r.Name), holder(r.Holder)
			return release(s, r)
		},
	})
}

func trimmed(s string) string {
	return strings.TrimRight(s, " ") + s[:min(len(s), max(0, 1-len(strings.TrimRight(s, " "))))]
}

func replaced(oldnew ...string) func(string) string { return strings.NewReplacer(oldnew...).Replace }

// printable makes a text of any.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
	if s == "" {
		return "_"
	}
	return s[:min(len(s), store.MaxName)]
}

var textFlaws = []flaw{
	{"name-bytes", "names pass over case", naming(strings.ToLower)},
	{"name-bytes", "names lose the spaces at their end", naming(trimmed)},
	{"name-bytes", "names are composed", naming(replaced("e\u0301", "é", "o\u0308", "ö", "A\u030a", "Å"))},
	{"name-bytes", "one compatibility form is folded", naming(replaced("\u212b", "Å"))},
	{"name-bytes", "runes beyond the first plane are lost", naming(func(name string) string {
		return strings.Map(func(r rune) rune {
			if r > 0xffff {
				return 0xfffd
			}
			return r
		}, name)
	})},
	{"name-bytes", "names are cut after 254 bytes", naming(func(name string) string { return name[:min(len(name), 254)] })},
	{"name-bytes", "a backslash escapes", naming(replaced(`\\`, `\`))},
	{"name-bytes", "names are cleaned paths", naming(replaced("//", "/"))},
	{"name-bytes", "percents are decoded", naming(replaced("%2F", "/", "%20", " "))},
	{"name-bytes", "quotes are doubled for good", naming(replaced("''", "'"))},
	{"name-invalid", "names are made printable", naming(printable)},
	{"name-invalid", "the backend's own error comes back", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if store.CheckName(c.Name) != nil {
			o.Err = errors.New("invalid byte sequence")
		}
		return o
	}})},
	{"name-invalid", "a record is made for a name of 256 bytes", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		o := acquire(s, c)
		if len(c.Name) > store.MaxName {
			c.Name = printable(c.Name)
			acquire(s, c)
		}
		return o
	}})},
	{"holder-bytes", "holders pass over case", holding(strings.ToLower)},
	{"holder-bytes", "holders lose the spaces at their end", holding(trimmed)},
	{"holder-bytes", "holders are composed", holding(replaced("e\u0301", "é"))},
	{"holder-invalid", "an empty holder is called anonymous", holding(func(holder string) string {
		if holder == "" {
			return "anonymous"
		}
		return holder
	})},
	{"holder-invalid", "holders are made printable", holding(printable)},
	{"limits-hold", "a lease lives for at most a day", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL = min(c.TTL, 24*time.Hour)
		return acquire(s, c)
	}})},
	{"limits-hold", "a linger lasts for at most a day", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = min(r.Linger, 24*time.Hour)
		return release(s, r)
	}})},
	{"limits-hold", "an end in 290 years is too far", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Retain != store.Forever && r.Retain > 290*365*24*time.Hour {
			return errors.New("timestamp out of range")
		}
		return release(s, r)
	}})},
	{"limits-hold", "a TTL below a second is none", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		if c.TTL < time.Second {
			c.TTL = store.MaxTTL
		}
		return acquire(s, c)
	}})},
	{"limits-refuse", "a TTL that is too short is raised", always(bend{acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
		c.TTL = max(c.TTL, store.MinTTL)
		return acquire(s, c)
	}})},
	{"limits-refuse", "a TTL that is too long is cut", always(bend{extend: func(s *memstore.Store, e store.Extension) error {
		e.TTL = min(e.TTL, store.MaxTTL)
		return extend(s, e)
	}})},
	{"limits-refuse", "a state that is too long is cut", leaving(func(state []byte) []byte { return state[:min(len(state), store.MaxState)] })},
	{"limits-refuse", "a negative retain is none", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Retain = max(0, r.Retain)
		return release(s, r)
	}})},
}
