package rules

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what a document's headings are called in links.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := noWord.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(title, " ", "-")] = true
	}
	return found
}

// Every link within the project leads somewhere, to the heading too if it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, doc := range files(t, "*.md") {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, doc), ""), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", doc, err)
				continue
			}
			if to.Scheme != "" {
				continue // others answer for what is theirs
			}
			target := doc
			if to.Path != "" {
				target = path.Join(path.Dir(doc), to.Path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", doc, m[1])
			} else if to.Fragment != "" && strings.HasSuffix(target, ".md") && !anchors(read(t, target))[to.Fragment] {
				t.Errorf("%s: the link %s leads to no heading", doc, m[1])
			}
		}
	}
}

// blanks is any run of them. Code is compared without: a document may break and indent as it likes.
var blanks = regexp.MustCompile(`\s+`)

func squeeze(code string) string { return blanks.ReplaceAllString(code, " ") }

// Every block of Go in a document stands, word for word, in a file that is compiled; the quick starts of the README in an
// Example.
func TestGoInDocumentsIsCompiled(t *testing.T) {
	var all strings.Builder
	for _, file := range files(t, "*.go") {
		all.WriteString(squeeze(read(t, file)))
	}
	examples := squeeze(read(t, "example_test.go"))
	for _, doc := range files(t, "*.md") {
		for _, m := range fence.FindAllStringSubmatch(read(t, doc), -1) {
			if m[1] != "go" {
				continue
			}
			where, in := all.String(), "any Go file"
			if doc == "README.md" {
				where, in = examples, "example_test.go"
			}
			if !strings.Contains(where, strings.TrimSpace(squeeze(m[2]))) {
				t.Errorf("%s: this is not in %s:\n%s", doc, in, m[2])
			}
		}
	}
}

// A document that names a test, a fuzz target or a benchmark names one that is there.
func TestTestsInDocumentsExist(t *testing.T) {
	var all strings.Builder
	for _, file := range files(t, "*_test.go") {
		all.WriteString(read(t, file))
	}
	name := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)
	for _, doc := range files(t, "*.md") {
		for _, named := range name.FindAllString(fence.ReplaceAllString(read(t, doc), ""), -1) {
			if !strings.Contains(all.String(), "\nfunc "+named+"(") {
				t.Errorf("%s names %s, which is not there", doc, named)
			}
		}
	}
}

// Each threat that the page on security names has a protection, and a test that shows it.
func TestEachThreatHasItsTest(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/operate/security.md"), "\n## Threats\n")
	test := regexp.MustCompile("^`(Test|Fuzz)[A-Z]\\w*`(, `(Test|Fuzz)[A-Z]\\w*`)*$")
	rows := regexp.MustCompile(`(?m)^\| (.*) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows[1:] { // the first is the heading
		cells := strings.Split(row[1], " | ")
		if len(cells) != 3 || cells[0] == "" || cells[1] == "" || !test.MatchString(cells[2]) {
			t.Errorf("the threat %q names no test: %q", cells[0], cells[len(cells)-1])
		}
	}
}

// Every document is listed in docs/README.md, except that the architecture lists the decisions.
func TestEveryDocumentIsListed(t *testing.T) {
	for _, doc := range files(t, "*.md") {
		index := "docs/README.md"
		switch {
		case !strings.HasPrefix(doc, "docs/"), doc == index:
			continue
		case path.Dir(doc) == "docs/adr":
			index = "docs/contribute/architecture.md"
		}
		if !leadsTo(t, index, doc) {
			t.Errorf("%s has no link to %s", index, doc)
		}
	}
	if !leadsTo(t, "README.md", "docs/README.md") {
		t.Error("README.md has no link to docs/README.md")
	}
}

func leadsTo(t *testing.T, from, to string) bool {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(read(t, from), -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if path.Join(path.Dir(from), target) == to {
			return true
		}
	}
	return false
}

// Comments, messages and scripts name documents by their path from the root. Such a document exists.
func TestDocumentsNamedInCodeExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)
	for _, pattern := range []string{"*.go", "*.sh", "*.sql", "*.lua", "*.txtar", "*.yml", "Makefile"} {
		for _, file := range files(t, pattern) {
			for _, doc := range named.FindAllString(read(t, file), -1) {
				if _, err := os.Stat(filepath.Join(root, doc)); err != nil {
					t.Errorf("%s names %s, which does not exist", file, doc)
				}
			}
		}
	}
}

// The page of errors quotes messages of the program.
func TestMessagesOfTheTroubleshootingPageExist(t *testing.T) {
	var all strings.Builder
	for _, file := range files(t, "*.go") {
		all.WriteString(read(t, file))
	}
	message := regexp.MustCompile("(?m)^\\| `([^`]+)`")
	found := message.FindAllStringSubmatch(read(t, "docs/operate/troubleshoot.md"), -1)
	for _, m := range found {
		if !strings.Contains(all.String(), m[1]) {
			t.Errorf("no program has the message %q", m[1])
		}
	}
	if len(found) < 15 {
		t.Errorf("only %d messages were found", len(found))
	}
}
