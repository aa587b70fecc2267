package crontab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/soloist-dev/soloist/store"
)

// maxName leaves room, within the longest name of a store, for what says that it is a job's.
const maxName = 200

func checkName(name string) error {
	if name == "" {
		return errors.New("it is empty; give one, the same on every replica")
	}
	if len(name) > maxName {
		return fmt.Errorf("it has %d bytes; give at most %d", len(name), maxName)
	}
	if name != strings.TrimSpace(name) {
		return errors.New("it has blanks around it; remove them")
	}
	return store.CheckName(name)
}

// derivedName names a job after its command, with a hash of all that makes it what it is.
func derivedName(j *Job) string {
	h := sha256.New()
	env := slices.Sorted(slices.Values(j.Env))
	for _, part := range append([]string{j.Schedule, j.Shell, j.Command, j.Stdin, j.Dir, j.User}, env...) {
		_, _ = fmt.Fprintf(h, "%q\n", part)
	}
	return slug(j.Command) + "-" + hex.EncodeToString(h.Sum(nil))[:8]
}

// runners are words that say little about what a command does, since they run the next one.
var runners = []string{
	"bash", "bundle", "cd", "chronic", "command", "dash", "docker", "env", "exec", "flock", "ionice", "java", "nice", "node", "nohup",
	"npm", "npx", "perl", "php", "poetry", "python", "python3", "rake", "ruby", "run", "setsid", "sh", "sudo", "test",
	"time", "timeout", "zsh",
}

// maxSlug is the length of a slug: it names, the hash tells apart.
const maxSlug = 32

// slug is the first word of a command that seems to say what it does. Options, assignments and what has no letters do
// not, and neither does the directory of cd: names are shown to people who may not see the command with its secrets.
func slug(command string) string {
	words := strings.Fields(command)
	first := ""
	for i, word := range words {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") || i > 0 && words[i-1] == "cd" {
			continue
		}
		s := plain(path.Base(word))
		if s == "" {
			continue
		}
		if first == "" {
			first = s
		}
		if !slices.Contains(runners, s) {
			return s
		}
	}
	if first == "" {
		return "job"
	}
	return first
}

// plain is word with only small letters, digits and single dashes.
func plain(word string) string {
	var b strings.Builder
	dash, letters := false, false
	for _, c := range []byte(strings.ToLower(word)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			letters = letters || c >= 'a'
			b.WriteByte(c)
		default:
			dash = true
		}
	}
	if !letters {
		return ""
	}
	return strings.TrimRight(b.String()[:min(b.Len(), maxSlug)], "-")
}
