// Package storeurl reads what the URLs of stores have in common: users and hosts, strict options, and the files of TLS. Its errors are
// *store.InvalidError, and quote nothing that may be a password.
package storeurl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Hidden stands for a value that may be a password.
const Hidden = "(not shown)"

// Invalid returns a *store.InvalidError. The rule is formatted with args.
func Invalid(what, value, rule string, args ...any) error {
	return &store.InvalidError{What: what, Value: value, Rule: fmt.Sprintf(rule, args...)}
}

// Split takes apart what follows the scheme: AUTHORITY/PATH?QUERY.
func Split(rest string) (authority, path, query string, err error) {
	rest, query, _ = strings.Cut(rest, "?")
	authority, path, _ = strings.Cut(rest, "/")
	if strings.Contains(path, "@") || strings.Contains(query, "@") { // what was read as hosts, path and options is a password
		return "", "", "", Invalid("store's URL", Hidden, "has an @ after the hosts: write @, / and ? in user, password and options as %%40, %%2F and %%3F")
	}
	return authority, path, query, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Authority reads USER:PASSWORD@HOST:PORT,HOST:PORT. User and password are "" if they are left out. Each host is returned with its port.
func Authority(text, defaultPort string) (user, password string, hosts []string, err error) {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		var errUser, errPassword error
		user, password, _ = strings.Cut(text[:i], ":")
		user, errUser = url.PathUnescape(user)
		password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return "", "", nil, Invalid("user and password of the store's URL", Hidden, "write what is not a letter or a digit as %%XX")
		}
		text = text[i+1:]
	}
	for addr := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), defaultPort
		}
		_, notIP := netip.ParseAddr(host)
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || notIP != nil && !hostName.MatchString(host) {
			return "", "", nil, Invalid("host of the store's URL", Hidden, "write HOST or HOST:PORT, after USER:PASSWORD@ if there are any")
		}
		hosts = append(hosts, net.JoinHostPort(host, port))
	}
	return user, password, hosts, nil
}

// An Option sets the value of an option. Its error is the rule that the value breaks.
type Option func(value string) error

// Word is an option that is any text but the empty one.
func Word(to *string) Option {
	return func(v string) error {
		if *to = v; v == "" {
			return errors.New("must not be empty")
		}
		return nil
	}
}

// Duration is an option that is a duration of more than 0.
func Duration(to *time.Duration) Option {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil || *to <= 0 {
			return errors.New("must be a duration of more than 0, such as 500ms or 2s")
		}
		return nil
	}
}

// What a time for connecting may be. In less than the shortest no connection is made, and every request would fail.
const (
	ShortestDial = time.Millisecond
	LongestDial  = time.Hour
)

// DialTimeout is an option that is the longest time for connecting.
func DialTimeout(to *time.Duration) Option {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil || *to < ShortestDial || *to > LongestDial {
			return fmt.Errorf("must be a duration from %s to %s, such as 500ms or 5s", ShortestDial, LongestDial)
		}
		return nil
	}
}

// Count is an option that is a number from 0 to 100,000.
func Count(to *int) Option {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil || *to < 0 || *to > 100_000 {
			return errors.New("must be a number from 0 to 100000")
		}
		return nil
	}
}

// Bool is an option that is true or false, in a form that strconv.ParseBool takes.
func Bool(to *bool) Option {
	return func(v string) (err error) {
		if *to, err = strconv.ParseBool(v); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	}
}

// Either is an option that is one of two words, and sets to if it is the second.
func Either(to *bool, no, yes string) Option {
	return func(v string) error {
		if *to = v == yes; v != yes && v != no {
			return fmt.Errorf("must be %s or %s", no, yes)
		}
		return nil
	}
}

// Parse reads a query. An option that is unknown or given twice is an error. An option whose name has "password" in it is a secret.
func Parse(query string, options map[string]Option) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return Invalid("options of the store's URL", Hidden, "write key=value&key=value, and what is not a letter or a digit as %%XX")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		set, ok := options[key]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(options)), ", ")
			return Invalid("option of the store's URL", strconv.Quote(key), "there is none of that name; there are %s", known)
		}
		all := values[key]
		err := errors.New("is given twice: give it once")
		if len(all) == 1 {
			err = set(all[0])
		}
		if err != nil {
			shown := strconv.Quote(all[len(all)-1])
			if strings.Contains(key, "password") {
				shown = Hidden
			}
			return Invalid("option "+key+" of the store's URL", shown, "%s", err.Error())
		}
	}
	return nil
}
