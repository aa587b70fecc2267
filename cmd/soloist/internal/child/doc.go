// Package child runs a command for somebody who holds a lease, and sees to it that nothing of the command is left when
// the lease is.
//
// The command is started in its own process group. When the context of [Command.Run] ends, the group gets SIGTERM, and
// at most [Command.Grace] later SIGKILL, whatever it is doing: ignoring signals, stopped, or holding pipes open. Run
// returns when the command and what it started are gone, so a lease may be released after it. What the command leaves
// behind when it ends by itself is ended likewise: a lease that is released while a background process goes on would
// exclude nobody.
//
// # What is found
//
//   - The command itself and every process of its group: on every Unix.
//   - Processes that left the group (setsid, or a shell with job control) while their ancestors live: on Linux, by the
//     process tree.
//   - Processes that left the group and whose parents ended (daemons): on Linux after [Adopt], which makes this process
//     the parent of such orphans. An orphan is told to be of a run by the variable SOLOIST_RUN that it inherited, or
//     because there is only one run. One that threw its environment away while several runs went on is ended when the
//     last of them ends. Orphans of others come here too if this process is process 1 (of a container), or had children
//     when it adopted: then one without the variable is left alone, and named by a [LeftError] if it began after the command.
//   - Every process of the run, on Linux, if the cgroup of this process was delegated to it.
//
// # What is not
//
//   - Processes of another user (a setuid program such as sudo), without a cgroup: they can't be signalled. [LeftError]
//     names them.
//   - Work handed to somebody else's process: a container engine, a service manager, at(1), a database.
//   - Daemons on other Unixes than Linux, or without Adopt.
//   - If this process is killed with SIGKILL, Linux kills the command (not if it is setuid), and the process of [Guard] what
//     the command had started; without that, and on other Unixes, it goes on. The fencing token is for that. Without a
//     cgroup, and unless it runs as root, the guard does not find what hides its environment: another soloist ([Hide]), or
//     an ssh-agent.
//   - If this process is stopped (SIGSTOP) or the machine is so busy that it gets no processor, no signal is sent before
//     it runs again.
//
// # On a terminal
//
// A process group that is not in the foreground can't read from its terminal. When stdin is a terminal and this process
// is in its foreground, the command's group is put there: at once if stdout is not a pipe (a pager behind the pipe
// needs the terminal too), else as soon as the command asks for it. Ctrl-C then reaches the command from the terminal,
// and this process not at all; otherwise it reaches this process, which forwards it. So the command gets it once.
//
// Ctrl-Z stops the commands with all that is found of them, and then this process, so that the shell gets its terminal
// back: whether a command has the terminal or not, as in a pipeline. A stopped process renews no lease: when the shell
// continues it after the TTL, the lease is lost, and the command is ended rather than continued. [Command.MayContinue] is
// asked before the command goes on.
//
// A command that asks for the terminal in the background stops this process likewise. If nothing can stop it, because no
// shell is there that could continue it or because it ignores SIGTSTP, the command gets SIGHUP; when it asks again, SIGTERM;
// and then SIGKILL ([ErrNoTerminal]).
package child
