#!/usr/bin/env bash
# Makes the given targets one after the other, says how long each took and what was not checked, and stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf bin/unchecked
begun=$SECONDS
report=()
for step in "$@"; do
	echo "== $step"
	start=$SECONDS
	if ! ${MAKE:-make} --no-print-directory "$step"; then
		tools/unchecked.sh
		echo "== $step FAILED after $((SECONDS - start)) s" >&2
		exit 1
	fi
	report+=("$(printf '%-12s %4d s' "$step" $((SECONDS - start)))")
done
tools/unchecked.sh
printf '%s\n' "== all is well, after $((SECONDS - begun)) s:" "${report[@]}"
