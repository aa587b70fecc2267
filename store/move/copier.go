package move

import (
	crypto "crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// The leases of a copy have holders that show whose they are: a copy that was killed leaves them, and they are not to be taken for those of a replica that died.
// A holder has this beginning, a random text, and a sum of that and the name, so that no other holder is one, whatever a replica or a host is called.
const (
	copierPrefix = "move/"
	copierText   = 26 // bytes, of rand.Text
	copierSum    = 16 // bytes, of base32
)

// copier returns a new holder for the copy of a name.
func copier(name string) string {
	text := crypto.Text()
	return copierPrefix + text + sumOf(name, text)
}

// isCopier reports whether holder is one that copier has returned for the name.
func isCopier(name, holder string) bool {
	rest, ok := strings.CutPrefix(holder, copierPrefix)
	return ok && len(rest) == copierText+copierSum && rest[copierText:] == sumOf(name, rest[:copierText])
}

func sumOf(name, text string) string {
	sum := sha256.Sum256([]byte(copierPrefix + text + name))
	return base32.StdEncoding.EncodeToString(sum[:copierSum*5/8])
}
