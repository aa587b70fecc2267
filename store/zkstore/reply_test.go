package zkstore

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
)

// TestRepliesOfTransactions: a reply that cannot be that to a transaction is neither its success nor a refusal.
func TestRepliesOfTransactions(t *testing.T) {
	ops := []any{&zk.CheckVersionRequest{Path: "/a/l"}, &zk.SetDataRequest{Path: "/a", Version: 4}}
	at := func(version int32) zk.MultiResponse { return zk.MultiResponse{Stat: &zk.Stat{Version: version}} }
	refusal := zk.MultiResponse{Error: zk.ErrBadVersion}
	for name, test := range map[string]struct {
		replies []zk.MultiResponse
		success bool
		refused int
	}{
		"as it is to be":                  {[]zk.MultiResponse{{}, at(5)}, true, -1},
		"nothing":                         {nil, false, -1},
		"of another transaction, shorter": {[]zk.MultiResponse{at(5)}, false, -1},
		"of another transaction, longer":  {[]zk.MultiResponse{{}, at(5), {}}, false, -1},
		"of another write":                {[]zk.MultiResponse{{}, at(4)}, false, -1},
		"of a later write":                {[]zk.MultiResponse{{}, at(6)}, false, -1},
		"without what was written":        {[]zk.MultiResponse{{}, {}}, false, -1},
		"refused":                         {[]zk.MultiResponse{{}, refusal}, false, 1},
		"refused, of another transaction": {[]zk.MultiResponse{refusal}, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := credible(ops, test.replies); got != test.success {
				t.Errorf("it is taken for a success: %v", got)
			}
			if got := refused(test.replies, len(ops)); got != test.refused {
				t.Errorf("it is taken for a refusal of the operation %d, want %d", got, test.refused)
			}
		})
	}
	if err := unsure("writing", nil); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a reply that is none: %v, want an unknown outcome", err)
	}
}
