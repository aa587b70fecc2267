package hazelcaststore

import (
	"regexp"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store.
type Config struct {
	// Map is the name of the IMap. The default is "soloist". All entries of the map belong to the store. With CP it
	// is what the names of the references begin with.
	Map string

	// MinMembers is how many members the cluster must have for a name to be granted or a lease to be extended.
	// Members without data (lite members) do not count. Set it to more than half of the members: then at most one
	// side of a split cluster grants, once both sides have noticed. The default is 0: any number will do.
	MinMembers int

	// CP keeps the records in the CP Subsystem, whose members decide by Raft, instead of a map: each name is a
	// reference (AtomicReference) in the CP group "soloist". It promises fencing. Hazelcast 5.4 has it if its
	// configuration has a cp-member-count; later versions need a license. Of the settings of the client those of the
	// addresses, TLS, the cluster's name, user and password, labels and time-outs are used.
	CP bool
}

var mapName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

func (c Config) filled() (Config, error) {
	if c.Map == "" {
		c.Map = "soloist"
	}
	if !mapName.MatchString(c.Map) {
		return c, &store.InvalidError{What: "map", Value: strconv.Quote(c.Map),
			Rule: "give up to 200 letters, digits, ., _ and -, with a letter or digit first"}
	}
	if c.MinMembers < 0 {
		return c, &store.InvalidError{What: "MinMembers", Value: strconv.Itoa(c.MinMembers),
			Rule: "give the number of members that a cluster must have, or 0 for any"}
	}
	if c.CP && c.MinMembers > 0 {
		return c, &store.InvalidError{What: "MinMembers", Value: strconv.Itoa(c.MinMembers),
			Rule: "leave it out with CP: a majority of the CP group decides"}
	}
	return c, nil
}
