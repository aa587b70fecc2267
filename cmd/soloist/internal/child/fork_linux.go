package child

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// forks is served by one thread, which starts all commands. Linux sends the signal of Pdeathsig when the thread ends
// that has forked, and this one lives as long as the process. It is not the process's first thread, to which Linux
// gives orphans: so the children of that one are orphans only.
var forks = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go serveForks(todo)
	return todo
})

// serveForks takes a thread that is not the first one and keeps it.
func serveForks(todo <-chan func()) {
	serve := func() {
		for do := range todo {
			do()
		}
	}
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		serve()
		return
	}
	defer runtime.UnlockOSThread()
	locked := make(chan struct{})
	go func() { // on another thread: this one is locked until then
		runtime.LockOSThread()
		close(locked)
		serve()
	}()
	<-locked
}

// fork starts a process on the thread for it.
func fork(file string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	forks() <- func() {
		defer close(done)
		pid, err = syscall.ForkExec(file, args, attr)
	}
	<-done
	return pid, err
}
