package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

//go:embed lua/*.lua
var texts embed.FS

// A script is Lua that runs in the server, in one step.
type script struct {
	text, sha string
	reads     bool // what it changes, if anything, nobody asks for: no outcome of it is unknown
	grants    bool // with Wait, replicas must have received what it has written
}

// newScript joins the files that are named, which use what those before them define, and what all scripts end with.
func newScript(names ...string) script {
	text := ""
	for _, name := range append(names, "answer") {
		if name == "" {
			continue
		}
		part, err := texts.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is part of the program
		}
		text += string(part)
	}
	sum := sha1.Sum([]byte(text))
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// scripts are those of a store. Each holds only what it uses, for the server makes its functions anew at each call.
type scripts struct{ acquire, extend, release, choose, queue, leave, watch, list, sweep script }

// newScripts returns the scripts of stores that share keys with other libraries, or of those that do not.
func newScripts(sharing bool) scripts {
	live, plain, usual := "alone", "plain", func(verb string) string { return verb + "_usual" }
	if sharing {
		live, plain, usual = "sharing", "", func(string) string { return "" }
	}
	all := scripts{
		acquire: newScript("clock", plain, usual("acquire"), "record", "batch", live, "grant", "acquire"),
		extend:  newScript("clock", "record", "batch", live, "put", "extend"),
		release: newScript("clock", plain, usual("release"), "record", "batch", live, "grant", "put", "release"),
		choose:  newScript("clock", "record", "batch", live, "grant", "choose"),
		queue:   newScript("clock", "record", live, "grant", "queue"),
		leave:   newScript("leave"),
		watch:   newScript("watch"),
		list:    newScript("clock", "record", "list"),
		sweep:   newScript("clock", "record", "grant", "put", "sweep"),
	}
	all.watch.reads, all.list.reads, all.sweep.reads = true, true, true
	all.acquire.grants, all.extend.grants, all.choose.grants = true, true, true
	return all
}

var aloneScripts, sharingScripts = newScripts(false), newScripts(true)

// A call is a script with what it is given. All of its keys are in one slot.
type call struct {
	script script
	keys   []string
	args   []any
	wait   bool // for replicas
	tag    string
}

// run makes calls, those of several slots in one pipeline. The server may have forgotten the scripts, at a restart or by SCRIPT FLUSH: then
// it has done nothing, and gets them whole.
func (s *Store) run(ctx context.Context, calls []call) []answered {
	answers := make([]answered, len(calls))
	all := make([]int, len(calls))
	for i := range all {
		all[i], calls[i].tag = i, s.tag()
		calls[i].args = append(calls[i].args, &calls[i].tag)
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
			a.reply, a.err = tagged(calls[i].tag, a.reply)
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

// once is a command that is sent once, and again only where a server of a cluster has redirected it. The client of a cluster repeats any other whose reply was
// lost, with MaxRetries of -1 too, and a refusal of the second one would hide that the first has been carried out.
type once struct{ *redis.Cmd }

// NoRetry is asked by the client.
func (once) NoRetry() bool { return true }

// send makes some of the calls, with the scripts by name or whole.
func (s *Store) send(ctx context.Context, calls []call, answers []answered, which []int, whole bool) {
	if c := calls[which[0]]; len(which) == 1 && !c.wait {
		cmd := c.command(ctx, whole)
		_ = s.client.Process(ctx, once{cmd})
		answers[which[0]].reply, answers[which[0]].err = cmd.Result()
		return
	}
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	acks := make([]*redis.Cmd, len(which))
	for n, i := range which {
		cmds[n] = calls[i].command(ctx, whole)
		_ = pipe.Process(ctx, once{cmds[n]})
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

// command is what is sent: the script by name or whole, the keys and the arguments.
func (c call) command(ctx context.Context, whole bool) *redis.Cmd {
	words := make([]any, 0, 3+len(c.keys)+len(c.args))
	if whole {
		words = append(words, "eval", c.script.text, len(c.keys))
	} else {
		words = append(words, "evalsha", c.script.sha, len(c.keys))
	}
	for i := range c.keys {
		words = append(words, &c.keys[i])
	}
	return redis.NewCmd(ctx, append(words, c.args...)...)
}

// enough is nil unless too few replicas have received what was written.
func (s *Store) enough(acked int) error {
	if acked >= s.cfg.Wait {
		return nil
	}
	return store.AsUnknown(fmt.Errorf("redisstore: %d replicas have received the change within %v, and %d were asked for",
		acked, s.cfg.WaitTimeout, s.cfg.Wait))
}
