package server

import (
	"context"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/test/servers"
)

// network makes a network of its own, and returns what does something in it, and the thread that is in it.
func network(t *testing.T) (do func(func()), thread int) {
	t.Helper()
	work, made := make(chan func()), make(chan error)
	go func() {
		runtime.LockOSThread() // without an end: the thread is in the network for good
		thread = syscall.Gettid()
		made <- syscall.Unshare(syscall.CLONE_NEWNET)
		for do := range work {
			do()
		}
	}()
	t.Cleanup(func() { close(work) })
	if err := <-made; err != nil {
		servers.Missing(t, "a network namespace cannot be made: %v (that takes root)", err)
	}
	return func(what func()) {
		done := make(chan struct{})
		work <- func() {
			defer close(done)
			what()
		}
		<-done
	}, thread
}

// A client whose machine vanishes keeps its name for as long as it was told, and not for as long as the kernel sends again, which is a quarter of an hour.
func TestHoldOfAMachineThatVanishes(t *testing.T) {
	client, _ := network(t)
	service, thread := network(t)
	program := servers.Program(t, "ip, of iproute2", "ip")
	ip := func(in func(func()), args ...string) {
		t.Helper()
		var out []byte
		var err error
		in(func() { out, err = exec.Command(program, args...).CombinedOutput() })
		if err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	ip(client, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", strconv.Itoa(thread))
	for address, in := range map[string]func(func()){"10.93.1.1/24": client, "10.93.1.2/24": service} {
		ip(in, "addr", "add", address, "dev", "wire")
		ip(in, "link", "set", "wire", "up")
	}
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true, Hosts: []string{"10.93.1.2"}})
	address, err := listen.Parse("10.93.1.2:0")
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	service(func() { l, err = address.Listen(t.Context()) })
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.http.Config.Serve(l) }()
	s.http.URL = "http://" + l.Addr().String()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (conn net.Conn, err error) {
		client(func() { conn, err = net.Dial("tcp", l.Addr().String()) })
		return conn, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	begin := time.Now()
	r, err := (&http.Client{Transport: transport}).Do(s.request("POST", "/v1/locks/x/hold", AcquireRequest{TTL: 24}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	held := lines(t, r.Body)()
	if held.Event != "held" {
		t.Fatalf("%+v", held)
	}
	ip(client, "link", "set", "wire", "down")
	other := soloisttest.NewReplica(t, s.store.Share(), soloist.Config{})
	servers.Wait(t, "the name is free", func() bool {
		_, err := other.TryLock(t.Context(), "x")
		return err == nil
	})
	if took := time.Since(begin).Seconds(); took < held.ExpiresIn {
		t.Errorf("it was free %v s after the request, and its holder was told that it has it for %v s", took, held.ExpiresIn)
	}
	servers.Wait(t, "its place is free", func() bool { return s.server.waiting.used() == 0 })
}
