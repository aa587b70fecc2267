package zkstore

import (
	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store/casstore"
)

// lastVersion is the version at which a node is replaced by a new one. ZooKeeper's versions are 32 bits wide, and wrap around to negative ones, of which -1 means any.
const lastVersion = 1 << 30

// A change is one change with the operations that carry it out together.
type change struct {
	casstore.Change
	makes   bool    // the first operation makes the node
	becomes version // of the node afterwards
	ops     []any
	size    int // of the operations, in bytes, about
}

func (b *backend) change(c casstore.Change) (change, error) {
	made := change{Change: c}
	var is version
	if c.Version != "" {
		var err error
		if is, err = parseVersion(c.Version); err != nil {
			return made, err
		}
	}
	node, anew := b.tree.node(c.Name), c.Record != nil && (c.Version == "" || is.number >= b.lastVersion)
	if c.Version != "" && (c.Record == nil || anew) {
		made.ops = append(made.ops, &zk.DeleteRequest{Path: b.tree.life(c.Name, is.life), Version: -1}, &zk.DeleteRequest{Path: node, Version: is.number})
	}
	if c.Record == nil {
		return made, nil
	}
	made.becomes = version{is.life, is.number + 1}
	if anew {
		made.becomes = version{c.Record.Write, 0}
	}
	data, err := encode(c.Record, made.becomes.life)
	if err != nil {
		return made, err
	}
	if anew {
		made.makes = c.Version == ""
		made.ops = append(made.ops, &zk.CreateRequest{Path: node, Data: data, Acl: b.acl}, &zk.CreateRequest{Path: b.tree.life(c.Name, made.becomes.life), Acl: b.acl})
	} else {
		made.ops = append(made.ops, &zk.CheckVersionRequest{Path: b.tree.life(c.Name, is.life), Version: -1}, &zk.SetDataRequest{Path: node, Data: data, Version: is.number})
	}
	made.size = len(data) + len(made.ops)*(len(node)+100)
	return made, nil
}
