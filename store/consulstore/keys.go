package consulstore

import (
	"encoding/hex"
	"strings"
)

// plain are the bytes that stand for themselves in a key. A slash does not: Consul would take two of them for one.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// keyOf returns the key of a name below a prefix. Other bytes than those of plain are written as =XX.
func keyOf(prefix, name string) string {
	var key strings.Builder
	key.WriteString(prefix)
	key.WriteByte('/')
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
func nameOf(prefix, key string) (string, bool) {
	var name strings.Builder
	for rest := strings.TrimPrefix(key, prefix+"/"); rest != ""; rest = rest[1:] {
		c := rest[0]
		if c == '=' {
			if len(rest) < 3 {
				return "", false
			}
			b, err := hex.DecodeString(rest[1:3])
			if err != nil {
				return "", false
			}
			c, rest = b[0], rest[2:]
		}
		name.WriteByte(c)
	}
	return name.String(), keyOf(prefix, name.String()) == key
}
