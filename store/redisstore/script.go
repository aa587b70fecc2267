package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

var (
	//go:embed lua/common.lua
	common string
	//go:embed lua/answer.lua
	answer string
	//go:embed lua/acquire.lua
	acquireText string
	//go:embed lua/extend.lua
	extendText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/queue.lua
	queueText string
	//go:embed lua/leave.lua
	leaveText string
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
	text = common + text + answer
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:]), reads}
}

var (
	acquireScript = newScript(acquireText, false)
	extendScript  = newScript(extendText, false)
	releaseScript = newScript(releaseText, false)
	queueScript   = newScript(queueText, false)
	leaveScript   = newScript(leaveText, false)
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
	all, tags := make([]int, len(calls)), make([]string, len(calls))
	for i := range all {
		all[i], tags[i] = i, s.tag()
		calls[i].args = append(calls[i].args, tags[i])
	}
	s.safely(ctx, calls, answers, all, false)
	var again []int
	for i, a := range answers {
		if a.err != nil && strings.HasPrefix(a.err.Error(), "NOSCRIPT") {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		s.safely(ctx, calls, answers, again, true)
	}
	for i := range answers {
		if a := &answers[i]; a.err == nil {
			a.reply, a.err = tagged(tags[i], a.reply)
		}
	}
	return answers
}

// safely is send, whatever comes back.
func (s *Store) safely(ctx context.Context, calls []call, answers []answered, which []int, whole bool) {
	err := unharmed(func() error {
		s.send(ctx, calls, answers, which, whole)
		return nil
	})
	for _, i := range which {
		if err != nil {
			answers[i].err = err
		}
	}
}

// tag makes what an answer is known by: nothing that this store, or another on the same server, has asked begins so.
func (s *Store) tag() string { return s.tags + strconv.FormatUint(s.asked.Add(1), 36) }

// send makes some of the calls, with the scripts by name or whole.
func (s *Store) send(ctx context.Context, calls []call, answers []answered, which []int, whole bool) {
	if c := calls[which[0]]; len(which) == 1 && !c.wait {
		cmd := c.on(ctx, s.client, whole)
		answers[which[0]].reply, answers[which[0]].err = cmd.Result()
		return
	}
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	acks := make([]*redis.Cmd, len(which))
	for n, i := range which {
		cmds[n] = calls[i].on(ctx, pipe, whole)
		if calls[i].wait {
			acks[n] = pipe.Do(ctx, "WAIT", s.cfg.Wait, s.cfg.WaitTimeout.Milliseconds()) // about what this connection has written
		}
	}
	_, failed := pipe.Exec(ctx)
	for n, i := range which {
		a := &answers[i]
		a.reply, a.err = cmds[n].Result()
		if a.err == nil && a.reply == nil { // no script answers that: there was no connection to send it on
			a.err = failed
		}
		if acks[n] != nil && a.err == nil {
			a.acked, a.err = acks[n].Int()
			a.ran = a.err != nil
		}
	}
}

// on sends a call to a client or into a pipeline.
func (c call) on(ctx context.Context, to redis.Scripter, whole bool) *redis.Cmd {
	if whole {
		return to.Eval(ctx, c.script.text, c.keys, c.args...)
	}
	return to.EvalSha(ctx, c.script.sha, c.keys, c.args...)
}

// enough is nil unless too few replicas have received what was written.
func (s *Store) enough(acked int) error {
	if acked >= s.cfg.Wait {
		return nil
	}
	return store.AsUnknown(fmt.Errorf("redisstore: %d replicas have received the change within %v, and %d were asked for",
		acked, s.cfg.WaitTimeout, s.cfg.Wait))
}
