package pgstore

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// A secret is that of a store's tables. What notifications say is sealed with it, for every role that may connect to the database can read
// and send them: such a role learns nothing of what they say, and makes none that is believed. It can send again what it has read.
type secret []byte

// words are what a notification says.
type words [4]int64

// sealSize is the number of digits of a sealed notification: a check value of 16 bytes, and the words.
const sealSize = 2 * (checkSize + 8*len(words{}))

const checkSize = 16

// open reads what seal.sql makes. It reports false for anything else.
func (s secret) open(payload string) (w words, ok bool) {
	if len(payload) != sealSize {
		return words{}, false
	}
	var raw [sealSize / 2]byte
	if _, err := hex.Decode(raw[:], []byte(payload)); err != nil {
		return words{}, false
	}
	check := raw[:checkSize]
	mask := s.mask(check)
	for i := range w {
		at := 8 * i
		w[i] = int64(binary.BigEndian.Uint64(raw[checkSize+at:]) ^ binary.BigEndian.Uint64(mask[at:])) //nolint:gosec // any bits
	}
	return w, subtle.ConstantTimeCompare(check, s.check(w)) == 1
}

func (s secret) mask(check []byte) [sha256.Size]byte {
	return sha256.Sum256(append(append([]byte{2}, s...), check...))
}

func (s secret) check(w words) []byte {
	text := append([]byte{1}, s...)
	for _, word := range w {
		text = binary.BigEndian.AppendUint64(text, uint64(word)) //nolint:gosec // any bits
	}
	sum := sha256.Sum256(text)
	return sum[:checkSize]
}

// group is that of a row's name, one of 256, as notify.sql has it.
func (s secret) group(row string) int {
	sum := sha256.Sum256(append(append([]byte{}, s...), row...))
	return int(sum[0])
}

// standsFor is what stands for a row's name in a notification, as seal_free.sql has it.
func standsFor(row string) int64 {
	sum := sha256.Sum256([]byte(row))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any bits
}

// An heir is what stands for a name and a holder who waits for it, as seal_handed.sql has it.
type heirID int64

func heirOf(name, holder string) heirID {
	sum := sha256.Sum256([]byte(name + "\x00" + holder))
	return heirID(binary.BigEndian.Uint64(sum[:]) >> 8) //nolint:gosec // 56 bits
}

// news reads the words of seal_handed.sql, which must not be those of another kind.
func (w words) news() (heirID, news, bool) {
	const latest = 1 << 53 // in the year 2255; a difference of such instants is a duration
	asked, token, granted, flags := w[0], w[1], w[2], w[3]&0xff
	if flags&1 == 0 || flags > 7 || token <= 0 || min(asked, granted) < 0 || max(asked, granted) > latest {
		return 0, news{}, false
	}
	n := news{asked: asked, token: token, after: time.Duration(granted-asked) * µs, waits: flags&2 != 0, more: flags&4 != 0}
	return heirID(uint64(w[3]) >> 8), n, true //nolint:gosec // 56 bits
}
