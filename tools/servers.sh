#!/usr/bin/env bash
# Installs the packages of tools/packages.txt that are not here, as root where there is apt-get. What is still missing afterwards is
# reported: the tests that need it are skipped. With SOLOIST_TEST_REQUIRE set every test must run, so then it is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# A shell that is not root's may lack /usr/sbin; Debian keeps the server programs of PostgreSQL off the PATH.
for dir in /usr/sbin /sbin /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done
export LC_ALL=C DEBIAN_FRONTEND=noninteractive # apt-get's errors are read below, and it must not ask

# here: whether a program is on the PATH, or a file is there.
here() {
	if [[ $1 == /* ]]; then [[ -e $1 ]]; else command -v "$1" >/dev/null; fi
}

# missing prints the packages of which something is missing, one a line, each with that.
missing() {
	local package programs program lacks
	while read -r package programs; do
		lacks=
		for program in $programs; do
			here "$program" || lacks+=" $program"
		done
		if [[ -n $lacks ]]; then echo "$package$lacks"; fi
	done < <(grep -v '^#' tools/packages.txt)
}

# apt runs apt-get. While another program has one of its locks it tries again, for ten minutes; after another error twice. apt-get's own
# DPkg::Lock::Timeout is for one of its three locks only. An update that could not reach a server is a success to it, unless told otherwise.
apt() {
	local output busy=0 failed=0
	until output=$(apt-get -qq -o APT::Update::Error-Mode=any "$@" </dev/null 2>&1); do
		if grep -qE 'Could not get lock|Unable to (acquire|lock)' <<<"$output"; then
			if ((busy++ == 0)); then echo "apt-get $*: waiting for another program that has its lock"; fi
			if ((busy == 120)); then break; fi
		elif ((++failed == 3)); then
			break
		fi
		sleep 5
	done
	if ((failed == 3 || busy == 120)); then
		printf 'apt-get %s failed:\n%s\n' "$*" "$output" >&2
		return 1
	fi
}

install() {
	local package rest
	# The tests start their own servers; those of the packages are not to run. POLICY_RC_D is for the test of this script.
	local policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
	if [[ ! -e $policy ]]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		# shellcheck disable=SC2064 # it is a local variable
		trap "rm -f '$policy'" EXIT
	fi
	apt update || true # what it has fetched before may do
	while read -r package rest; do
		echo "installing $package"
		apt install -y --no-install-recommends "$package" || true # what is missing at the end is told below
	done <<<"$1"
}

need=$(missing)
if [[ -n $need && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	install "$need"
	need=$(missing)
fi
if [[ -z $need ]]; then exit 0; fi
if [[ -z ${SOLOIST_TEST_REQUIRE:-} ]]; then
	echo "not here, so what needs it is not tested (a package a line, and what is missing of it):"
	echo "$need"
else
	echo "SOLOIST_TEST_REQUIRE is set, so every test must run, but these are not here (a package a line, and what is missing of it):" >&2
	echo "$need" >&2
	echo "Install them, or run this as root where there is apt-get." >&2
	exit 1
fi
