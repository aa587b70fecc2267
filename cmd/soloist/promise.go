package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// lookWithin bounds the look at a store's capabilities before anything runs.
const lookWithin = 10 * time.Second

// requirable are the capabilities that a store can be required to have, each with whether it has it and why.
var requirable = map[string]func(store.Capabilities) (bool, string){
	"fleet": func(c store.Capabilities) (bool, string) {
		return c.Scope == store.ScopeFleet, "it is shared by: " + string(c.Scope)
	},
	"fencing": func(c store.Capabilities) (bool, string) { return promised(c.Fencing) },
	"durable": func(c store.Capabilities) (bool, string) { return promised(c.Durable) },
}

func promised(p store.Promise) (bool, string) {
	return p.Answer == store.Yes, p.Answer.String() + ", " + p.Why
}

// required lists what --require-fleet, and $SOLOIST_REQUIRE or else the configuration file, ask of the store.
func (a *app) required() ([]string, error) {
	var names []string
	if a.requireFleet {
		names = append(names, "fleet")
	}
	text := a.env(varRequire)
	if text == "" {
		for _, name := range a.configRequire.values {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if requirable[name] == nil {
			return nil, badConfig(fmt.Errorf("$%s: %q is none of fleet, fencing and durable; write them with commas in between", varRequire, name))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// require refuses a store that lacks what is required of it.
func (a *app) require(s store.Store) error {
	names, err := a.required()
	if err != nil || len(names) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	caps, err := store.CapabilitiesOf(ctx, s)
	if err != nil {
		return fmt.Errorf("looking whether the store is as required (%s): %w", strings.Join(names, ", "), err)
	}
	for _, name := range names {
		if has, why := requirable[name](caps); !has {
			return badConfig(fmt.Errorf("%s: the store must have %q, as --require-fleet, $%s or the configuration file says, and it has not: %s: %s", a.found.from, name, varRequire, caps.Backend, why))
		}
	}
	return nil
}

// describe returns the attributes of the first log line of a command that goes on for long: which store it uses,
// without secrets, as whom, and what the store promises. A store that does not respond is described as such.
func (a *app) describe(ctx context.Context, s store.Store) []any {
	attrs := []any{"store", a.found.shown(), "named_by", a.found.from, "namespace", a.namespace, "replica", a.replicaName()}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	caps, err := store.CapabilitiesOf(ctx, s)
	if err != nil {
		return append(attrs, "capabilities", "unknown: "+err.Error())
	}
	return append(attrs, "backend", caps.Backend, "shared_by", string(caps.Scope), "fencing", caps.Fencing.Answer.String(), "durable", caps.Durable.Answer.String(),
		"waiting", caps.Waiting.Answer.String())
}

// shownOptions are the options of stores' URLs that say where records are, or who shares them, and are no secrets.
var shownOptions = []string{"table", "schema", "prefix", "shedlock", "shedlock_zone", "share", "redisson", "wait", "tls", "sslmode", "socket", "search_path"}

// shown is the URL without user, password and the options that could be secrets. Of what is no URL of a store it has the scheme at most: what looks
// like the path could be the end of a password.
func (s source) shown() string {
	if s.scheme() == moveScheme {
		m, err := s.moving()
		if err != nil {
			return moveScheme + ":"
		}
		text, _ := m.text(func(s source) (string, error) { return s.shown(), nil })
		return text
	}
	text, query, _ := strings.Cut(s.text, "?")
	if s.scheme() == "sqlite" {
		return text
	}
	scheme, rest, found := strings.Cut(text, "://")
	_, err := url.Parse(s.text)
	switch _, known := openers[s.scheme()]; {
	case !known:
		return "…"
	case !found, err != nil, strings.Contains(query, "@"):
		return s.scheme() + ":"
	}
	text = scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	var options []string
	for option := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(option, "="); slices.Contains(shownOptions, name) {
			options = append(options, option)
		}
	}
	if len(options) > 0 {
		text += "?" + strings.Join(options, "&")
	}
	return text
}
