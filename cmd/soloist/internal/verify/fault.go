package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Fault is a kind of fault.
type Fault string

// The faults.
const (
	Kill        Fault = "kill"         // a replica is killed with SIGKILL, and another takes its place
	PauseShort  Fault = "pause-short"  // a replica is stopped with SIGSTOP for less than the TTL
	PauseLong   Fault = "pause-long"   // a replica is stopped for longer than the TTL
	LoseRequest Fault = "lose-request" // a request never reaches the store
	LoseReply   Fault = "lose-reply"   // the store has done what was asked, and the client is not told
	Repeat      Fault = "repeat"       // a request reaches the store twice, the second time later
	Slow        Fault = "slow"         // a request or its reply takes long
)

// faultSets are the words for faults on the command line, and what they stand for.
var faultSets = map[string][]Fault{
	"kill":   {Kill},
	"pause":  {PauseShort, PauseLong},
	"lose":   {LoseRequest, LoseReply},
	"repeat": {Repeat},
	"slow":   {Slow},
}

// FaultNames are the words that ParseFaults knows.
var FaultNames = []string{"pause", "kill", "lose", "repeat", "slow"}

// ParseFaults reads a list such as "pause,kill": "all" and "none" are lists too.
func ParseFaults(list string) ([]Fault, error) {
	switch list {
	case "all":
		list = strings.Join(FaultNames, ",")
	case "none":
		return nil, nil
	}
	var faults []Fault
	for _, word := range strings.Split(list, ",") {
		set, ok := faultSets[strings.TrimSpace(word)]
		if !ok {
			return nil, fmt.Errorf("fault %q: give all, none, or some of %s", word, strings.Join(FaultNames, ","))
		}
		for _, f := range set {
			if !slices.Contains(faults, f) {
				faults = append(faults, f)
			}
		}
	}
	return faults, nil
}

// odds are how likely a call of a replica meets each of the faults that it makes by itself.
func odds(faults []Fault) map[Fault]float64 {
	all := map[Fault]float64{LoseRequest: 0.01, LoseReply: 0.02, Repeat: 0.01, Slow: 0.02}
	some := map[Fault]float64{}
	for _, f := range faults {
		if p, ok := all[f]; ok {
			some[f] = p
		}
	}
	return some
}

// pauseFor is how long a replica is paused, of the fraction x of what is possible.
func pauseFor(f Fault, ttl time.Duration, x float64) time.Duration {
	if f == PauseShort {
		return time.Duration((0.1 + 0.7*x) * float64(ttl))
	}
	return time.Duration((1.1 + x) * float64(ttl))
}
