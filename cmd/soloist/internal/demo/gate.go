package demo

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"
)

// The commands of the director, a line each.
const (
	cmdHold = "hold" // halt in the middle of the next run
	cmdGo   = "go"   // go on
)

// A gate halts a run until the director lets it go on.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil while it is open
}

// obey does what the director says until its end is closed: then the director is gone.
func (g *gate) obey(commands io.Reader) {
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		switch lines.Text() {
		case cmdHold:
			g.close()
		case cmdGo:
			g.open()
		}
	}
	g.open()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// closed returns what to wait for, nil if the gate is open.
func (g *gate) closed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// pass calls halted and waits if the gate is closed, until it opens or ctx ends. While it waits it calls meanwhile.
func (g *gate) pass(ctx context.Context, halted, meanwhile func()) {
	opened := g.closed()
	if opened == nil {
		return
	}
	halted()
	for {
		select {
		case <-opened:
			return
		case <-ctx.Done():
			return
		case <-time.After(gateLook):
			meanwhile()
		}
	}
}
