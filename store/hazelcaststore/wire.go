package hazelcaststore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The client library speaks of the CP Subsystem's structures only the number, has no call for the group of a
// structure, and chooses the member for each request; and it has no keys of a map for those who cannot read them all.
// So requests to the CP Subsystem, and those for such keys, are written here, in the open binary protocol that the
// library speaks, too: a message is a number of frames, and a frame has a length, flags and a content. Numbers are
// little-endian.

// The types of messages. A reply has the type of its request and 1 more; 0 is an error.
const (
	typeError         = 0
	typeAuthenticate  = 0x000100
	typePing          = 0x000b00
	typeKeySet        = 0x012200 // Map.KeySet
	typeCompareAndSet = 0x0a0200 // AtomicRef.CompareAndSet
	typeGet           = 0x0a0400 // AtomicRef.Get
	typeCreateGroup   = 0x1e0100 // CPGroup.CreateCPGroup
	typeGroups        = 0x220500 // CPSubsystem.GetCPGroupIds
	typeObjects       = 0x220600 // CPSubsystem.GetCPObjectInfos
)

// The flags of a frame.
const (
	flagsWhole = 1<<15 | 1<<14 // the first frame of a message that is not in fragments
	flagFinal  = 1 << 13       // the last frame of a message
	flagBegin  = 1 << 12       // of a structure
	flagEnd    = 1 << 11
	flagNull   = 1 << 10
	flagEvent  = 1 << 9
	flagBackup = 1 << 8 // an event about a backup
)

// Where the fields of a first frame are.
const (
	atCorrelation = 4
	atFields      = 16 // of a request, after the type, the correlation and the partition
	atReply       = 13 // of a reply, after the type, the correlation and the number of backups
)

// maxMessage bounds what is read as one message, and frameCost is what each of its frames counts for beside its
// content: about what it takes in memory. The names of a million objects have less.
const (
	maxMessage = 1 << 28
	frameCost  = 64
)

// refService is the service of references.
const refService = "hz:raft:atomicRefService"

type frame struct {
	flags   uint16
	content []byte
}

// A message is one request or reply.
type message []frame

// request begins a message with the fields of its first frame. Requests go to any partition.
func request(kind uint32, fields ...byte) message {
	first := binary.LittleEndian.AppendUint32(nil, kind)
	first = binary.LittleEndian.AppendUint64(first, 0)
	first = binary.LittleEndian.AppendUint32(first, ^uint32(0))
	return message{{flagsWhole, append(first, fields...)}}
}

func (m message) text(s string) message { return append(m, frame{0, []byte(s)}) }
func (m message) data(d []byte) message {
	if d == nil {
		return append(m, frame{flagNull, nil})
	}
	return append(m, frame{0, d})
}

func (m message) group(g groupID) message {
	numbers := binary.LittleEndian.AppendUint64(nil, uint64(g.seed))
	numbers = binary.LittleEndian.AppendUint64(numbers, uint64(g.id))
	return append(m, frame{flagBegin, nil}, frame{0, numbers}, frame{0, []byte(g.name)}, frame{flagEnd, nil})
}

// bytes returns what is sent.
func (m message) bytes(correlation uint64) (all []byte) {
	binary.LittleEndian.PutUint64(m[0].content[atCorrelation:], correlation)
	for i, f := range m {
		if i == len(m)-1 {
			f.flags |= flagFinal
		}
		all = binary.LittleEndian.AppendUint32(all, uint32(6+len(f.content)))
		all = binary.LittleEndian.AppendUint16(all, f.flags)
		all = append(all, f.content...)
	}
	return all
}

var errProtocol = errors.New("it does not speak the protocol of a member")

// readMessage reads one message.
func readMessage(in io.Reader) (m message, err error) {
	for size := int64(0); ; {
		var head [6]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		n := int64(binary.LittleEndian.Uint32(head[:])) - int64(len(head))
		if size += frameCost + n; n < 0 || size > maxMessage {
			return nil, errProtocol
		}
		f := frame{flags: binary.LittleEndian.Uint16(head[4:])}
		if f.content, err = readContent(in, n); err != nil {
			return nil, err
		}
		if m = append(m, f); f.flags&flagFinal != 0 {
			break
		}
	}
	if m[0].flags&flagsWhole != flagsWhole || len(m[0].content) < atReply {
		return nil, errProtocol
	}
	return m, nil
}

// sureContent is up to how many bytes are made room for before they have arrived.
const sureContent = 4 << 10

// readContent reads n bytes. What it takes in memory grows with what arrives, whatever n is.
func readContent(in io.Reader, n int64) ([]byte, error) {
	content := make([]byte, min(n, sureContent))
	for read := 0; ; {
		if _, err := io.ReadFull(in, content[read:]); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
		if read = len(content); int64(read) == n {
			return content, nil
		}
		content = append(content, make([]byte, min(n-int64(read), int64(read)))...)
	}
}

func (m message) kind() uint32 { return binary.LittleEndian.Uint32(m[0].content) }
func (m message) correlation() uint64 {
	return binary.LittleEndian.Uint64(m[0].content[atCorrelation:])
}
func (m message) event() bool { return m[0].flags&(flagEvent|flagBackup) != 0 }

// A reply is a message that is read from front to back. Its err is not nil once something was not there.
type reply struct {
	rest message
	err  error
}

func (m message) reply() *reply { return &reply{rest: m[1:]} }

func (r *reply) next() (f frame) {
	if r.err != nil || len(r.rest) == 0 {
		r.err = errProtocol
		return frame{}
	}
	f, r.rest = r.rest[0], r.rest[1:]
	return f
}

// ends reports whether the structure that is being read ends here, and reads its end. Members of other versions may
// have put more into a structure than is known here.
func (r *reply) ends() bool {
	if r.err != nil || len(r.rest) == 0 {
		r.err = errProtocol
		return true
	}
	if r.rest[0].flags&flagEnd != 0 {
		r.rest = r.rest[1:]
		return true
	}
	return false
}

// skip reads up to the end of the structure that has begun.
func (r *reply) skip() {
	for depth := 1; depth > 0 && r.err == nil; {
		switch f := r.next(); {
		case f.flags&flagBegin != 0:
			depth++
		case f.flags&flagEnd != 0:
			depth--
		}
	}
}

func (r *reply) begin() {
	if f := r.next(); f.flags&flagBegin == 0 {
		r.err = errProtocol
	}
}

// A groupID is the identity of a CP group.
type groupID struct {
	name     string
	seed, id int64
}

func (r *reply) group() (g groupID) {
	r.begin()
	numbers := r.next().content
	g.name = string(r.next().content)
	r.skip()
	if len(numbers) < 16 {
		r.err = errProtocol
	}
	if r.err != nil {
		return groupID{}
	}
	g.seed, g.id = int64(binary.LittleEndian.Uint64(numbers)), int64(binary.LittleEndian.Uint64(numbers[8:]))
	return g
}

// A memberError is an error with which a member has replied.
type memberError struct{ class, text string }

func (e *memberError) Error() string {
	text, _, _ := strings.Cut(strings.TrimSpace(e.text), "\n")
	return fmt.Sprintf("%s (%s)", text, e.class[strings.LastIndex(e.class, ".")+1:])
}

// failure reads a reply of typeError.
func (m message) failure() error {
	r := m.reply()
	r.begin() // of the causes
	r.begin() // of the first one
	r.next()  // its code
	class := string(r.next().content)
	text := r.next()
	if r.err != nil {
		return r.err
	}
	return &memberError{class, string(text.content)}
}

// The serialized form of a text, as every client writes it: a hash of 0, the type -11, a length and the text,
// big-endian.
var textHead = []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf5}

func textData(text string) []byte {
	if text == "" {
		return nil
	}
	d := binary.BigEndian.AppendUint32(append([]byte(nil), textHead...), uint32(len(text)))
	return append(d, text...)
}

// textOf returns the text of a serialized form. It reports false if that is of something else.
func textOf(d []byte) (string, bool) {
	if len(d) < 12 || string(d[4:8]) != string(textHead[4:]) || int(binary.BigEndian.Uint32(d[8:])) != len(d)-12 {
		return "", false
	}
	return string(d[12:]), true
}
