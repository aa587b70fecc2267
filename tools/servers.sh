#!/usr/bin/env bash
# Installs the servers that stores are tested against, and what checks the model, where apt-get and the right to use it are. What is
# still missing afterwards is said; the tests that need it are skipped, or fail when SOLOIST_TEST_REQUIRE is set.
set -euo pipefail

# A line for each package: its name, and programs one of which shows that it is here.
packages() {
	cat <<-'LIST'
		redis-server redis-server
		redis-tools redis-cli
		postgresql postgres /usr/lib/postgresql/*/bin/postgres
		pgbouncer pgbouncer
		mariadb-server mariadbd
		openjdk-17-jdk-headless javac
		maven mvn
		spin spin
		gcc cc
	LIST
}

# A shell that is not root's may lack /usr/sbin.
PATH=$PATH:/usr/sbin:/sbin

missing() {
	local package programs program found
	while read -r package programs; do
		found=
		for program in $programs; do
			if command -v "$program" >/dev/null; then found=1; fi
		done
		if [[ -z $found ]]; then echo "$package"; fi
	done < <(packages)
}

mapfile -t need < <(missing)
if ((${#need[@]} == 0)); then exit 0; fi
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	echo "installing ${need[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# The tests start servers of their own; those of the packages are not to run.
	if [[ ! -e /usr/sbin/policy-rc.d ]]; then
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod +x /usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	apt-get update -qq </dev/null || true
	for package in "${need[@]}"; do
		apt-get install -y -qq --no-install-recommends "$package" </dev/null >/dev/null || echo "$package could not be installed" >&2
	done
	mapfile -t need < <(missing)
fi
if ((${#need[@]})); then echo "not here, so what needs it is not tested: ${need[*]}"; fi
