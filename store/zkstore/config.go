package zkstore

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store. The zero value is valid.
type Config struct {
	// Path is the node below which the store keeps its nodes. It is made when it is first needed. No other program may write below
	// it. The default is "/soloist".
	Path string

	// ACL is that of all nodes that the store makes. The users of the store need all rights but admin: zk.PermRead, PermWrite, PermCreate and
	// PermDelete. The default is zk.WorldACL(zk.PermAll), which lets everybody change the nodes.
	ACL []zk.ACL
}

// longestPath is in bytes.
const longestPath = 255

var nodePath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

func (c Config) filled() (Config, error) {
	if c.Path == "" {
		c.Path = "/soloist"
	}
	parts := strings.Split(c.Path, "/")
	if len(c.Path) > longestPath || !nodePath.MatchString(c.Path) || slices.Contains(parts, ".") || slices.Contains(parts, "..") || parts[1] == "zookeeper" {
		return c, &store.InvalidError{
			What: "path", Value: strconv.Quote(c.Path),
			Rule: "give at most " + strconv.Itoa(longestPath) + " bytes such as /soloist or /apps/soloist, of letters, digits, ., _ and -, not below /zookeeper",
		}
	}
	if c.ACL == nil {
		c.ACL = zk.WorldACL(zk.PermAll)
	}
	if len(c.ACL) == 0 {
		return c, &store.InvalidError{What: "ACL", Value: "without an entry", Rule: "give one that lets the users of the store read, write, create and delete"}
	}
	return c, nil
}
