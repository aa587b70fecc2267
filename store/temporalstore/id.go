package temporalstore

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// longestID is the length of a workflow ID that every database below Temporal can keep.
const longestID = 255

// plain are the bytes of a name that its workflow ID has as they are. Others, such as upper case, which some databases do not tell from lower case, are %xx.
const plain = "abcdefghijklmnopqrstuvwxyz0123456789.-_/:"

// workflowID returns the ID of a name's execution: the name itself, as far as it can be. One that would be too long ends with a digest of the name.
func (c Config) workflowID(name string) string {
	var id strings.Builder
	id.WriteString(c.Prefix)
	id.WriteByte(':')
	for i := range len(name) {
		if b := name[i]; strings.IndexByte(plain, b) >= 0 {
			id.WriteByte(b)
		} else {
			id.WriteByte('%')
			id.WriteString(hex.EncodeToString([]byte{b}))
		}
	}
	if id.Len() <= longestID {
		return id.String()
	}
	digest := sha256.Sum256([]byte(name))
	end := "~" + hex.EncodeToString(digest[:])
	return id.String()[:longestID-len(end)] + end
}

// nameOf returns the name of a workflow ID, or false if the ID does not have the whole name or is none of this store.
func (c Config) nameOf(id string) (string, bool) {
	text, ok := strings.CutPrefix(id, c.Prefix+":")
	if !ok || strings.Contains(text, "~") {
		return "", false
	}
	name, err := url.PathUnescape(text)
	return name, err == nil && c.workflowID(name) == id
}
