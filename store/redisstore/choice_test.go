package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// A choice may be of more names than Lua passes to one command.
func TestChoiceOfVeryManyNames(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("name/", i)
	}
	last := len(names) - 1
	take(t, s, names[last], "h")
	i, _, err := s.Choose(background, names, store.Claim{Holder: "h", TTL: time.Minute})
	if err != nil || i != last {
		t.Errorf("chose %d, %v; want %d, which the holder has", i, err, last)
	}
}

// A parrot is a hook of a client that hears numbers of its choice instead of what the scripts answer.
type parrot struct{ says *[]float64 }

func (parrot) DialHook(next redis.DialHook) redis.DialHook { return next }
func (parrot) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p parrot) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		err := next(ctx, c)
		if script, ok := c.(interface{ SetVal(any) }); ok && err == nil && *p.says != nil {
			args := c.Args()
			said := []byte(*args[len(args)-1].(*string) + " ") // the tag
			for _, n := range *p.says {
				said = binary.LittleEndian.AppendUint64(said, math.Float64bits(n))
			}
			script.SetVal(string(said))
		}
		return err
	}
}

// An answer that is none to a choice, or to a place in a queue, is an unknown outcome: a grant may have been made.
func TestAnswersThatAreNone(t *testing.T) {
	client := plainClient(t, shared(t).URL)
	var says []float64
	client.AddHook(parrot{&says})
	s := newStore(t, client)
	if _, _, err := s.Queue(t.Context(), store.Claim{Name: "warm", Holder: "h", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	type answers map[string]string // to what was said
	tried := func(what string, all answers, ask func() string) {
		t.Helper()
		for said, want := range all {
			says = []float64{}
			for word := range strings.FieldsSeq(said) {
				n, err := strconv.ParseFloat(word, 64)
				must(t, err)
				says = append(says, n)
			}
			if got := ask(); got != want {
				t.Errorf("%s is answered with %q: %s, want %s", what, said, got, want)
			}
		}
	}
	told := func(err error, answer ...any) string {
		if isUnknown(err) {
			return "unknown"
		}
		return fmt.Sprint(append(answer, err)...)
	}
	tried("a choice", answers{
		"1 7": "1 7 <nil>", "0 7": "0 7 <nil>",
		"2 7": "unknown", "-1 7": "unknown", "-1": "unknown", "0": "unknown", "": "unknown", "0 7 7": "unknown",
	}, func() string {
		i, grant, err := s.Choose(t.Context(), []string{"a", "b"}, store.Claim{Holder: "h", TTL: time.Minute})
		return told(err, i, grant.Token)
	})
	tried("a place", answers{
		"7 5 5": "7 0s <nil>", "7 5 3": "7 -2µs <nil>", "7 5 6": "7 0s <nil>",
		"7 5": "unknown", "7": "unknown", "": "unknown", "7 0 0": "unknown", "7 5 5 5": "unknown", "0 5 5": "unknown",
	}, func() string {
		grant, after, err := s.Queue(t.Context(), store.Claim{Name: "a", Holder: "h", TTL: time.Minute})
		return told(err, grant.Token, after)
	})
}
