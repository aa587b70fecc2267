package hazelcaststore

import (
	"bytes"
	"testing"
)

// FuzzMessages: whatever a member, or what is taken for one, sends, is read or refused.
func FuzzMessages(f *testing.F) {
	f.Add(request(typeGroups, 0).group(groupID{"soloist", 0, 7}).text("a").data(textData("x")).bytes(3))
	failure := request(typeError, 0, 0)
	failure = append(failure, frame{flagBegin, nil}, frame{flagBegin, nil}, frame{0, []byte{1, 0, 0, 0}}, frame{0, []byte("a.B")}, frame{0, []byte("text\nstack")}, frame{flagEnd, nil}, frame{flagEnd, nil})
	f.Add(failure.bytes(4))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		if m.failure() == nil {
			t.Error("a failure without an error")
		}
		r := m.reply()
		r.group()
		for r.begin(); !r.ends(); {
			r.skip()
		}
		text, ok := textOf(m[len(m)-1].content)
		if ok && !bytes.HasSuffix(m[len(m)-1].content, []byte(text)) {
			t.Errorf("got the text %q", text)
		}
	})
}

// TestMessages: what is written is read as it was.
func TestMessages(t *testing.T) {
	group := groupID{"soloist", -1, 1 << 40}
	m, err := readMessage(bytes.NewReader(request(typeGet).group(group).text("a").data(textData("{}")).data(nil).bytes(9)))
	if err != nil || m.kind() != typeGet || m.correlation() != 9 || m.event() {
		t.Fatalf("got %v, %v", m, err)
	}
	r := m.reply()
	found, name := r.group(), string(r.next().content)
	text, ok := textOf(r.next().content)
	if null := r.next(); found != group || name != "a" || text != "{}" || !ok || null.flags&flagNull == 0 || r.err != nil {
		t.Errorf("got %+v, %q, %q, %t, %v", found, name, text, ok, r.err)
	}
	if r.next(); r.err == nil {
		t.Error("something was read after the end")
	}
	failed := append(request(typeError, 0, 0), frame{flagBegin, nil}, frame{flagBegin, nil}, frame{0, []byte{1, 0, 0, 0}}, frame{0, []byte("a.B")}, frame{0, []byte("text\n stack")})
	if err := failed.failure(); err.Error() != "text (B)" {
		t.Errorf("got %q", err)
	}
}
