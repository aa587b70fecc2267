package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

var (
	//go:embed lua/common.lua
	common string
	//go:embed lua/acquire.lua
	acquireText string
	//go:embed lua/extend.lua
	extendText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/choose.lua
	chooseText string
	//go:embed lua/list.lua
	listText string
	//go:embed lua/sweep.lua
	sweepText string
)

// A script is Lua that runs in the server, in one step.
type script struct {
	text, sha string
	reads     bool // what it changes, if anything, nobody asks for: no outcome of it is unknown
}

func newScript(text string, reads bool) script {
	text = common + text
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:]), reads}
}

var (
	acquireScript = newScript(acquireText, false)
	extendScript  = newScript(extendText, false)
	releaseScript = newScript(releaseText, false)
	chooseScript  = newScript(chooseText, false)
	listScript    = newScript(listText, true)
	sweepScript   = newScript(sweepText, true)
)

// A call is a script with what it is given. All of its keys are in one slot.
type call struct {
	script script
	keys   []string
	args   []any
	wait   bool // for replicas
}

// run makes calls, those of several slots in one pipeline. The server may have forgotten the scripts, at a restart or by SCRIPT FLUSH: then
// it has done nothing, and gets them whole.
func (s *Store) run(ctx context.Context, calls []call) []answered {
	answers := make([]answered, len(calls))
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	s.send(ctx, calls, answers, all, false)
	var again []int
	for i, a := range answers {
		if a.err != nil && strings.HasPrefix(a.err.Error(), "NOSCRIPT") {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		s.send(ctx, calls, answers, again, true)
	}
	return answers
}

// send makes some of the calls, with the scripts by name or whole.
func (s *Store) send(ctx context.Context, calls []call, answers []answered, which []int, whole bool) {
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	acks := make([]*redis.Cmd, len(which))
	for n, i := range which {
		c := calls[i]
		if whole {
			cmds[n] = pipe.Eval(ctx, c.script.text, c.keys, c.args...)
		} else {
			cmds[n] = pipe.EvalSha(ctx, c.script.sha, c.keys, c.args...)
		}
		if c.wait {
			acks[n] = pipe.Do(ctx, "WAIT", s.cfg.Wait, s.cfg.WaitTimeout.Milliseconds()) // about what this connection has written
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		answers[i].reply, answers[i].err = cmds[n].Result()
		if acks[n] != nil && answers[i].err == nil {
			if answers[i].acked, answers[i].err = acks[n].Int(); answers[i].err != nil {
				answers[i].ran = true
			}
		}
	}
}

// enough is nil unless too few replicas have received what was written.
func (s *Store) enough(acked int) error {
	if acked >= s.cfg.Wait {
		return nil
	}
	return store.AsUnknown(fmt.Errorf("redisstore: %d replicas have received the change within %v, and %d were asked for",
		acked, s.cfg.WaitTimeout, s.cfg.Wait))
}
