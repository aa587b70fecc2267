#!/usr/bin/env bash
# Runs a command as on a slow machine: tools/squeeze.sh go test ./internal/load
#
#   CPUS=0.5   how many cores it has, by a quota; this takes root and the cpu controller of cgroups
#   FSYNC=1.5  how many seconds each wait for the disk takes longer, in programs of C such as the servers; this takes gcc
#
# Without either it has half a core.
set -euo pipefail

if (($# == 0)); then
	echo "say which command: [CPUS=0.5] [FSYNC=1.5] tools/squeeze.sh go test ./internal/load" >&2
	exit 64
fi
if [[ -z ${CPUS:-} && -z ${FSYNC:-} ]]; then CPUS=0.5; fi

undo=()
finish() {
	local code=$? what
	for what in "${undo[@]}"; do eval "$what"; done
	exit "$code"
}
trap finish EXIT

if [[ -n ${FSYNC:-} ]]; then
	dir=$(mktemp -d)
	undo+=("rm -r '$dir'")
	gcc -shared -fPIC -O2 -o "$dir/slow.so" "$(dirname "$0")/slow-disk.c" -ldl
	export LD_PRELOAD=$dir/slow.so SLOW_FSYNC_MS
	SLOW_FSYNC_MS=$(awk -v s="$FSYNC" 'BEGIN { printf "%d", 1000 * s }')
fi

if [[ -z ${CPUS:-} ]]; then
	"$@"
	exit
fi
quota=$(awk -v cores="$CPUS" 'BEGIN { printf "%d", 100000 * cores }') # µs in each period of 100,000
if [[ -e /sys/fs/cgroup/cpu/cgroup.procs ]]; then # version 1
	group=/sys/fs/cgroup/cpu/squeeze.$$
	mkdir "$group"
	echo 100000 >"$group/cpu.cfs_period_us"
	echo "$quota" >"$group/cpu.cfs_quota_us"
else # version 2
	group=/sys/fs/cgroup/squeeze.$$
	echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
	mkdir "$group"
	echo "$quota 100000" >"$group/cpu.max"
fi
undo+=("for ((i = 0; i < 100; i++)); do rmdir '$group' 2>/dev/null && break; sleep 0.1; done") # what the command leaves behind ends first
bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
