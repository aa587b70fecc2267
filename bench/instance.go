package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/internal/load"
)

// An instance is a service in a process of its own, so that its processor time can be told from that of its clients.
// The process is this program. It writes its address to its standard output, and the processor time that it has used
// whenever a line comes by its standard input, with which it ends.
type instance struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	address string
}

// childProfile is the variable that names the file for a CPU profile of an instance.
const childProfile = "SOLOIST_BENCH_PROFILE"

// startInstance starts an instance of a contender.
func startInstance(ctx context.Context, backend, contender, url string) (*instance, error) {
	i := &instance{cmd: exec.CommandContext(ctx, os.Args[0])}
	i.cmd.Env = append(os.Environ(), childBackend+"="+backend, childContender+"="+contender, childURL+"="+url)
	i.cmd.Stderr = os.Stderr
	var err error
	if i.in, err = i.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	i.out = bufio.NewReader(out)
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	if i.address, err = i.line(); err != nil {
		i.end()
		return nil, err
	}
	return i, nil
}

// line reads what the instance says.
func (i *instance) line() (string, error) {
	line, err := i.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the process of the service: %w", err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// spent returns the processor time that the instance has used.
func (i *instance) spent() (time.Duration, error) {
	if _, err := io.WriteString(i.in, "\n"); err != nil {
		return 0, err
	}
	line, err := i.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(n), err
}

func (i *instance) end() {
	_ = i.in.Close()
	_ = i.cmd.Wait()
}

// serveAsChild is the main function of an instance.
func serveAsChild(ctx context.Context, s spec, url string) error {
	if path := os.Getenv(childProfile); path != "" {
		file, err := os.Create(path + "." + strings.ReplaceAll(strings.ReplaceAll(s.name, "/", "-"), " ", "-"))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	handler, end, err := s.serves(ctx, url)
	if err != nil {
		return err
	}
	defer end()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	run := listen.NewServer(handler, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- run.Serve(l) }()
	fmt.Println(l.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(int64(load.CPU()))
	}
	_ = run.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
