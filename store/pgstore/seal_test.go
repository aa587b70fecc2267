package pgstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"
)

// seal does in Go what seal.sql does.
func (s secret) seal(w words) string {
	check := s.check(w)
	mask := s.mask(check)
	raw := append([]byte{}, check...)
	for i, word := range w {
		raw = binary.BigEndian.AppendUint64(raw, uint64(word)^binary.BigEndian.Uint64(mask[8*i:]))
	}
	return hex.EncodeToString(raw)
}

// The server and Go agree on what a sealed notification is, and on groups and on what stands for names.
func TestSeals(t *testing.T) {
	s := fresh(t, server(t).URL)
	key := secret(one[[]byte](t, s.pool, "SELECT secret FROM "+s.tables.meta))
	if len(key) != 32 {
		t.Fatalf("a secret of %d bytes", len(key))
	}
	for _, w := range []words{{}, {1, -2, 1<<63 - 1, -1 << 63}, {1795274312763903, 1795274312763904, 0, 255}} {
		expression := strings.Replace(bare("seal"), "{{words}}", "$1::bigint AS a, $2::bigint AS b, $3::bigint AS c, $4::bigint AS d", 1)
		theirs := one[string](t, s.pool, "SELECT "+s.tables.fill(expression), w[0], w[1], w[2], w[3])
		if ours := key.seal(w); ours != theirs {
			t.Errorf("%v: sealed as %s by the server, as %s by us", w, theirs, ours)
		}
		if got, ok := key.open(theirs); !ok || got != w {
			t.Errorf("%v: read as %v, %t", w, got, ok)
		}
		if _, ok := key.open(theirs[:95] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", theirs[95])+1)%16])); ok {
			t.Error("a payload with one bit changed is believed")
		}
		if _, ok := (secret("another")).open(theirs); ok {
			t.Error("a payload sealed with another secret is believed")
		}
	}
	for _, name := range []string{"a", "lock/日本語"} {
		sql := "SELECT get_byte(sha256((SELECT secret FROM " + s.tables.meta + ") || convert_to($1::text, 'UTF8')), 0)"
		if theirs := one[int](t, s.pool, sql, name); theirs != key.group(name) {
			t.Errorf("group of %q: %d by the server, %d by us", name, theirs, key.group(name))
		}
		free := "SELECT w.a FROM (SELECT " + strings.Replace(bare("seal_free"), "{{at}}", "0::bigint", 1) + " FROM (SELECT $1::text AS name, 0::bigint AS ended) AS e) AS w"
		if theirs := one[int64](t, s.pool, free, name); theirs != standsFor(name) {
			t.Errorf("what stands for %q: %d by the server, %d by us", name, theirs, standsFor(name))
		}
		handed := "SELECT w.a, w.d FROM (SELECT " + bare("seal_handed") + ` FROM (SELECT $1::text AS name, 'é'::text AS heir, 5::bigint AS asked, 6::bigint AS token,
			now() AS now, 0::bigint AS mark, 'x'::bytea AS state) AS e) AS w`
		var asked, d int64
		if err := s.pool.QueryRow(background, handed, name).Scan(&asked, &d); err != nil {
			t.Fatal(err)
		}
		if id, n, ok := (words{asked, 6, 7, d}).news(); !ok || id != heirOf(name, "é") || n.asked != 5 || !n.more || n.waits {
			t.Errorf("news of %q: %v, %+v, %t", name, id, n, ok)
		}
	}
}

func FuzzSealed(f *testing.F) {
	key := secret("0123456789abcdef0123456789abcdef")
	f.Add(key.seal(words{1, 2, 3, 0x107}))
	f.Add(key.seal(words{-1, 1 << 62, -3, 1}))
	f.Add(strings.Repeat("0", sealSize))
	f.Add("1 77 2 0 0 1 b")
	f.Fuzz(func(t *testing.T, payload string) {
		w, ok := key.open(payload)
		if !ok {
			return
		}
		if again := key.seal(w); !strings.EqualFold(again, payload) {
			t.Errorf("%q is believed, and %v is sealed as %q", payload, w, again)
		}
		if _, n, ok := w.news(); ok && (n.token <= 0 || n.asked < 0) {
			t.Errorf("%q is taken for %s", payload, fmt.Sprintf("%+v", n))
		}
	})
}

// Words are news only if they are of a hand-over, whole and possible: others can be sent again on the channel of a
// process that waits.
func TestWordsThatAreNews(t *testing.T) {
	const latest = int64(1) << 53
	heir := heirOf("name", "a")
	id := int64(uint64(heir) << 8)
	for flags, want := range map[int64]news{
		1: {asked: 5, token: 7, after: 4 * µs},
		3: {asked: 5, token: 7, after: 4 * µs, waits: true},
		5: {asked: 5, token: 7, after: 4 * µs, more: true},
		7: {asked: 5, token: 7, after: 4 * µs, waits: true, more: true},
	} {
		if to, n, ok := (words{5, 7, 9, id | flags}).news(); !ok || to != heir || n != want {
			t.Errorf("flags %d: for %d, %+v, %t; want %+v for %d", flags, to, n, ok, want, heir)
		}
	}
	for _, w := range []words{{0, 1, 0, id | 1}, {latest, 7, latest, id | 1}, {0, 1 << 62, latest, id | 1}} {
		if _, n, ok := w.news(); !ok || n.asked != w[0] || n.token != w[1] || n.after != time.Duration(w[2]-w[0])*µs {
			t.Errorf("%v: %+v, %t; want them taken for news", w, n, ok)
		}
	}
	for _, w := range []words{
		{standsFor("name"), 7, 0, 0}, {5, 7, 9, id}, {5, 7, 9, id | 2}, {5, 7, 9, id | 4}, {5, 7, 9, id | 6},
		{5, 7, 9, id | 9}, {5, 7, 9, id | 17}, {5, 7, 9, id | 129},
		{5, 0, 9, id | 1}, {5, -7, 9, id | 1}, {-1, 7, 9, id | 1}, {5, 7, -1, id | 1},
		{latest + 1, 7, latest, id | 1}, {5, 7, latest + 1, id | 1},
	} {
		if to, n, ok := w.news(); ok {
			t.Errorf("%v: taken for news for %d, %+v", w, to, n)
		}
	}
}
