package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, which Linux fixes at 100 per second.
const clockTick = 10 * time.Millisecond

// processCPU is the processor time of a process, of its children that live, and of those that have ended. 0 where there is no /proc.
func processCPU(pid int) time.Duration {
	ticks, _ := statOf(strconv.Itoa(pid), true)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if own, parent := statOf(filepath.Base(dir), false); parent == pid {
			ticks += own
		}
	}
	return time.Duration(ticks) * clockTick
}

// statOf returns the ticks that a process has used, and its parent; with ended those of its children that it has waited for too.
func statOf(pid string, ended bool) (ticks int64, parent int) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0 // it has ended
	}
	// The second field is the program's name in parentheses, and may have any character in it. What follows is proc(5) from field 3.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return 0, 0
	}
	last := 13 // stime
	if ended {
		last = 15 // cstime
	}
	for _, field := range fields[11:last] {
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	parent, _ = strconv.Atoi(fields[1])
	return ticks, parent
}
