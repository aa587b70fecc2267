package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// A Command returns the command of a process that calls Waiter, or Serve with another kind of lock.
type Command func(ctx context.Context) *exec.Cmd

// An order is a line of text for a waiting process. It responds with a line, too.
type order struct {
	Namespace string  `json:"namespace"`
	Waiting   Waiting `json:"waiting"`
}

// An Account is the report of a waiting process when it has finished.
type Account struct {
	Holds    []Hold        `json:"holds"`
	Requests int64         `json:"requests"`
	CPU      time.Duration `json:"cpu"`
	Error    string        `json:"error,omitempty"`
}

// Waiter is the main function of a process of case C: a client that waits for the lock. in and out are its pipes to the
// process that started it.
func Waiter(ctx context.Context, open func(context.Context) (store.Store, error), in io.Reader, out io.Writer) error {
	var r *replica
	defer func() {
		if r != nil {
			_ = r.close()
		}
	}()
	return Serve(ctx, in, out, func(namespace string) (func(context.Context, int) (func() error, error), func() int64, error) {
		var err error
		if r, err = (Config{Open: open, Namespace: namespace}).replica(ctx, soloist.Options{}); err != nil {
			return nil, nil, err
		}
		return r.waiter("awaited"), r.counter.Requests.Load, nil
	})
}

// Serve is Waiter for another kind of lock: connect returns the function that waits for the lock, and one that counts
// requests, which may be nil.
func Serve(ctx context.Context, in io.Reader, out io.Writer, connect func(namespace string) (func(context.Context, int) (func() error, error), func() int64, error)) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("a waiting process got no order")
	}
	var o order
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("a waiting process got an order that it cannot read: %w", err)
	}
	lock, requests, err := connect(o.Namespace)
	if err == nil {
		err = warm(ctx, lock)
	}
	tellBack := func(a Account) error { return json.NewEncoder(out).Encode(a) }
	if err != nil {
		return tellBack(Account{Error: err.Error()})
	}
	if err := tellBack(Account{}); err != nil { // ready
		return err
	}
	if !lines.Scan() { // go
		return nil
	}
	if requests == nil {
		requests = func() int64 { return 0 }
	}
	begun, asked := CPU(), requests()
	holds, err := o.Waiting.Run(ctx, lock)
	a := Account{Holds: holds, Requests: requests() - asked, CPU: CPU() - begun}
	if err != nil {
		a.Error = err.Error()
	}
	return tellBack(a)
}

// warm acquires the lock once, or waits for it for a while, so that the process has its connections and subscriptions.
func warm(ctx context.Context, lock func(context.Context, int) (func() error, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	unlock, err := lock(ctx, 0)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		return err
	}
	return unlock()
}

// A child is a waiting process.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func (c *child) tell(line any) error { return json.NewEncoder(c.in).Encode(line) }

func (c *child) hear() (Account, error) {
	var a Account
	if err := c.out.Decode(&a); err != nil {
		return a, fmt.Errorf("a waiting process has ended: %w", err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("a waiting process: %s", a.Error)
	}
	return a, nil
}

// Processes runs n processes that wait as w defines, each as one waiter, and returns their accounts. begin is called
// when all are ready; it may be nil. The processes end before Processes returns.
func Processes(ctx context.Context, n int, command Command, namespace string, w Waiting, begin func() error) (Account, error) {
	ctx, kill := context.WithCancel(ctx)
	var children []*child
	defer func() {
		for _, c := range children {
			_ = c.in.Close()
		}
		kill()
		for _, c := range children {
			_ = c.cmd.Wait() // it was killed, or has sent its account
		}
	}()
	for range n {
		c, err := launch(command(ctx))
		if err != nil {
			return Account{}, err
		}
		children = append(children, c)
	}
	w.Waiters = 1
	for _, c := range children {
		if err := c.tell(order{namespace, w}); err != nil {
			return Account{}, err
		}
	}
	if _, err := hearAll(children); err != nil {
		return Account{}, err
	}
	if begin != nil {
		if err := begin(); err != nil {
			return Account{}, err
		}
	}
	for _, c := range children {
		if err := c.tell("go"); err != nil {
			return Account{}, err
		}
	}
	accounts, err := hearAll(children)
	var all Account
	for i, a := range accounts {
		for _, h := range a.Holds {
			h.Waiter = i
			all.Holds = append(all.Holds, h)
		}
		all.Requests += a.Requests
		all.CPU += a.CPU
	}
	return all, err
}

func launch(cmd *exec.Cmd) (*child, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a waiting process: %w", err)
	}
	return &child{cmd, in, json.NewDecoder(out)}, nil
}

func hearAll(children []*child) ([]Account, error) {
	accounts, errs := make([]Account, len(children)), make([]error, len(children))
	var hearing sync.WaitGroup
	for i, c := range children {
		hearing.Go(func() { accounts[i], errs[i] = c.hear() })
	}
	hearing.Wait()
	return accounts, errors.Join(errs...)
}

// waitAcross is case C with processes.
func (cfg Config) waitAcross(ctx context.Context, n int) ([]Result, error) {
	what := fmt.Sprintf("%d processes", n)
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	start := time.Now()
	account, err := Processes(ctx, n, cfg.Processes, cfg.Namespace, cfg.waiting(n), func() error {
		stop = tell(cfg.For, func(done float64) { cfg.Progress(done, what) })
		start = time.Now()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &Sample{Took: time.Since(start), CPU: account.CPU}
	r := s.handOvers(what, Changes(account.Holds, n), account.Requests)
	r.Allocs, r.Bytes = 0, 0
	return []Result{r}, nil
}
