package rules

import (
	"regexp"
	"strings"
	"testing"
)

// Phrases that readers had to read twice, each with a plain one. A phrase is listed only if it is never right in this project; anything else is
// for reviewers.
var phrases = []struct{ not, but string }{
	{`[Ww]hoever`, "a caller that, the replica that"},
	{`(?:is|are|was|were) at it`, "has it, holds it, uses it"},
	{`(?:tells?|hears?) of`, "reports, notices"},
	{`(?:stands?|stood|standing) in line`, "waits in the queue"},
	{`for ever`, "forever"},
	{`in vain`, "without success"},
	{`skipped,? aloud`, "skipped with a message"},
	{`answers (?:nil|true|false|whether|why)`, "returns, reports"},
	{`an? (?:\w+ )?\w+ of (?:its|their) own`, "its own, a separate"},
}

// A doc comment begins with the name and a verb of the field: an error and a function return, a type describes.
var privateVerb = regexp.MustCompile(`^\s*// (?:\([^)]*\) )?[A-Za-z]\w* (?:answers|says|tells|hears)\b`)

// The doc comments of all but the command and the modules of stores are checked.
var uncheckedDocs = regexp.MustCompile(`^(?:cmd|store/\w+store)/`)

func TestDocCommentsBeginWithAVerbOfTheField(t *testing.T) {
	for _, file := range files(t, "*.go") {
		if uncheckedDocs.MatchString(file) && !checkedFiles.MatchString(file) {
			continue
		}
		inComment := false
		for i, line := range strings.Split(read(t, file), "\n") {
			if privateVerb.MatchString(line) && !inComment { // later lines are in the middle of a sentence
				t.Errorf("%s:%d: %q; better: returns, reports, describes", file, i+1, strings.TrimSpace(line))
			}
			inComment = strings.HasPrefix(strings.TrimSpace(line), "//")
		}
	}
}

// The pages for users and the packages that they import are checked. Not the modules of stores, nor the logs of what was found and of the defects that are seeded.
var (
	checkedFiles = regexp.MustCompile(`^(?:[^/]+|(?:cmd/soloist|cron|docs|fence|internal/load|soloisttest)/.*|store/(?:[^/]+|(?:casstore|memstore|storetest)/.*))$`)
	unchecked    = regexp.MustCompile(`^docs/why/(?:found|mutants)\.md$|^docs/stores/`)
)

func TestPhrasesAreOfPlainEnglish(t *testing.T) {
	var all []string
	for _, p := range phrases {
		all = append(all, p.not)
	}
	found := regexp.MustCompile(`\b(?:` + strings.Join(all, "|") + `)\b`)
	for _, pattern := range []string{"*.go", "*.md", "*.sql", "*.lua", "*.sh", "*.txtar", "Makefile"} {
		for _, file := range files(t, pattern) {
			if !checkedFiles.MatchString(file) || unchecked.MatchString(file) {
				continue
			}
			text := read(t, file)
			for _, at := range found.FindAllStringIndex(text, -1) {
				line := 1 + strings.Count(text[:at[0]], "\n")
				t.Errorf("%s:%d: %q; better: %s", file, line, strings.TrimSpace(text[at[0]:at[1]]), better(text[at[0]:at[1]]))
			}
		}
	}
}

// better returns the plain phrase for one that was found.
func better(found string) string {
	for _, p := range phrases {
		if regexp.MustCompile(`\b(?:` + p.not + `)\b`).MatchString(found) {
			return p.but
		}
	}
	return ""
}
