package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestTransactionsFall: a store that has seen a later transaction than its server has is refused by that server, so it grants nothing again, and says why.
func TestTransactionsFall(t *testing.T) {
	servers.Long(t)
	for what, older := range map[string]bool{"ZooKeeper has lost its data": false, "ZooKeeper has an older copy of its data": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			member := servers.ZooKeeper(t, 1)[0]
			data := filepath.Join(filepath.Dir(member.LogFile()), "version-2")
			s, err := zkstore.OpenURL(background, "zk://"+member.Addr+"/soloist?dialtimeout=10s")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			token := func(name string) (int64, error) {
				outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "x", TTL: time.Hour}})
				if err != nil {
					return 0, err
				}
				return outcomes[0].Grant.Token, outcomes[0].Err
			}
			if _, err := token("before"); err != nil {
				t.Fatal(err)
			}
			if older {
				member.Stop()
				if err := os.CopyFS(data+".older", os.DirFS(data)); err != nil {
					t.Fatal(err)
				}
				member.Start()
			}
			for i := range 10 { // more transactions than the end of a session
				servers.Wait(t, "a grant", func() bool { _, err := token(fmt.Sprint("name/", i)); return err == nil })
			}
			member.Kill()
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if older {
				if err := os.Rename(data+".older", data); err != nil {
					t.Fatal(err)
				}
			}
			member.Start()
			servers.Wait(t, "the server to refuse the store", func() bool {
				err := within(2*time.Second, func(ctx context.Context) error { return s.Ping(ctx) })
				if err == nil {
					t.Fatal("the server has taken it")
				}
				return strings.Contains(err.Error(), "which this process has seen")
			})
			if got, err := token("name/0"); err == nil || errors.Is(err, store.ErrUnknown) {
				t.Errorf("a claim: token %d, %v, want an error that says that nothing was sent", got, err)
			}
		})
	}
}
