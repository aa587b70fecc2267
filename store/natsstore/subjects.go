package natsstore

import (
	"encoding/hex"
	"strings"
)

// subjects are those of a bucket.
type subjects struct{ bucket string }

// stream returns the name of the bucket's stream.
func (s subjects) stream() string { return "KV_" + s.bucket }

// all matches the subjects of all records.
func (s subjects) all() string { return s.record(">") }

// record returns the subject of a key.
func (s subjects) record(key string) string { return "$KV." + s.bucket + "." + key }

// stored returns the subject on which the server reports that a message of a key was stored.
func (s subjects) stored(key string) string { return "soloist.stored." + s.bucket + "." + key }

// elected returns the subject on which the server reports a new leader of the stream.
func (s subjects) elected() string { return "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + s.stream() }

// plain are the bytes that stand for themselves in a key.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"

// keyOf returns the key of a name. Bytes that may not be in a key, or that divide a subject, are written as =XX.
func keyOf(name string) string {
	var key strings.Builder
	for i := range len(name) {
		if c := name[i]; strings.IndexByte(plain, c) >= 0 {
			key.WriteByte(c)
		} else {
			key.WriteByte('=')
			key.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return key.String()
}

// nameOf returns the name of a key, and false if no name has that key.
func nameOf(key string) (string, bool) {
	var name strings.Builder
	for rest := key; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		if c == '=' {
			if len(rest) < 2 {
				return "", false
			}
			b, err := hex.DecodeString(rest[:2])
			if err != nil {
				return "", false
			}
			c, rest = b[0], rest[2:]
		}
		name.WriteByte(c)
	}
	return name.String(), keyOf(name.String()) == key
}
