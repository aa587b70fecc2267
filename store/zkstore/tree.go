package zkstore

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
)

// A tree knows where the nodes of a store are:
//
//	PATH/BUCKET/NAME         the record of a name
//	PATH/BUCKET/NAME/LIFE    an empty node that is there as long as its parent
//
// A reply of ZooKeeper has all children of a node, so the names are divided among 256 buckets.
//
// ZooKeeper compares the version of a node, which begins at 0 again when a node is deleted and another one is made in its place. LIFE is unique, so a
// write that also checks that it is there changes no other node than the one that was read.
type tree struct{ root string }

// bucket returns the path of the bucket of a name.
func (t tree) bucket(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("%s/%02x", t.root, byte(h.Sum32()))
}

var bucketName = regexp.MustCompile(`^[0-9a-f]{2}$`)

// node returns the path of the record of a name.
func (t tree) node(name string) string { return t.bucket(name) + "/" + escape(name) }

// life returns the path of the node that is there as long as the record.
func (t tree) life(name, life string) string { return t.node(name) + "/" + life }

// escape returns the name of the node of a name: bytes that are not letters, digits, -, _ or : are written as %XX, and so is a . that is first.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == ':'
}

// unescape returns the name of a node's name. It returns false if no name has such a node.
func unescape(node string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(node); i++ {
		if node[i] != '%' {
			b.WriteByte(node[i])
			continue
		}
		var c byte
		if i+2 >= len(node) {
			return "", false
		}
		if _, err := fmt.Sscanf(node[i+1:i+3], "%02X", &c); err != nil {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), escape(b.String()) == node
}
