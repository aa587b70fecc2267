package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
)

// The permits of a semaphore are in one part of a cluster: choosing one is one request.
func TestChoosingInAClusterIsOneTrip(t *testing.T) {
	cluster := sharedCluster(t)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	s := open(t, fresh(t, cluster.URL))
	permits := make([]string, 200)
	for i := range permits {
		permits[i] = fmt.Sprintf("semaphore/of many/%d", i)
	}
	choose := func(holder string) int {
		i, _, err := s.Choose(t.Context(), permits, store.Claim{Holder: holder, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	choose("warm")
	total := func() (n int) {
		for _, node := range cluster.Nodes {
			n += requests(t, plainClient(t, node.URL))
		}
		return n
	}
	before := total()
	if i := choose("h"); i != 1 {
		t.Errorf("permit %d was chosen, want the first that is free", i)
	}
	if n := total() - before; n != 1 {
		t.Errorf("choosing a permit: %d requests, want 1", n)
	}
}

// TestChoosingPassesByAPartOfNoUse: a name that has no tokens left, alone in its part of a cluster, does not keep those of other parts from being chosen.
func TestChoosingPassesByAPartOfNoUse(t *testing.T) {
	s := open(t, fresh(t, sharedCluster(t).URL))
	const spent, most = "spent", 1<<53 - 1
	outs, err := s.Acquire(t.Context(), []store.Claim{{Name: spent, Holder: "a", TTL: time.Minute, Above: most - 1}})
	if err != nil || outs[0].Err != nil {
		t.Fatal(outs, err)
	}
	errs, err := s.Release(t.Context(), []store.Release{{Name: spent, Holder: "a", Token: outs[0].Grant.Token}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	for n := range 20 { // in all parts
		names := []string{spent, fmt.Sprintf("free %d", n)}
		choose := func(names []string, holder string) (int, error) {
			i, _, err := s.Choose(t.Context(), names, store.Claim{Holder: holder, TTL: time.Minute})
			return i, err
		}
		if i, err := choose(names, "b"); i != 1 || err != nil {
			t.Errorf("of %q: %d, %v; want the second", names, i, err)
		}
		if i, err := choose(names, "c"); i != 1 || !errors.Is(err, store.ErrHeld) {
			t.Errorf("of %q, of which the second is held: %d, %v", names, i, err)
		}
		if i, err := choose(names[:1], "d"); i != 0 || !errors.Is(err, store.ErrTokens) {
			t.Errorf("of %q: %d, %v", names[:1], i, err)
		}
	}
}

// A mumbler is a hook of a client that makes the grants of choices unreadable.
type mumbler struct{}

func (mumbler) DialHook(next redis.DialHook) redis.DialHook { return next }
func (mumbler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (mumbler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		err := next(ctx, c)
		if script, ok := c.(interface {
			Val() any
			SetVal(any)
		}); ok {
			text, _ := script.Val().(string)
			if tag, numbers, _ := strings.Cut(text, " "); len(numbers) == 16 { // which was chosen, and its token
				script.SetVal(tag + " " + numbers[:8] + strings.Repeat("\x00", 8))
			}
		}
		return err
	}
}

// A grant that cannot be read ends a choice as unknown: no other name of another part of a cluster is taken as well.
func TestChoiceEndsWithAGrantThatCannotBeRead(t *testing.T) {
	cluster := sharedCluster(t)
	if cluster.Nodes == nil {
		t.Skip("the cluster is somebody else's")
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Nodes[0].Addr}, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	client.AddHook(mumbler{})
	own := prefix()
	s, err := redisstore.New(client, redisstore.Config{Prefix: own})
	must(t, err)
	names := make([]string, 20) // in many parts
	for i := range names {
		names[i] = fmt.Sprint("name ", i)
	}
	if _, _, err := s.Choose(t.Context(), names, store.Claim{Holder: "a", TTL: time.Hour}); !isUnknown(err) {
		t.Errorf("choosing: %v", err)
	}
	var taken []string
	for r, err := range open(t, cluster.URL+"?prefix="+own).List(t.Context(), "") {
		must(t, err)
		taken = append(taken, r.Name)
	}
	if len(taken) != 1 {
		t.Errorf("taken: %s; want one name", strings.Join(taken, ", "))
	}
}
