#!/usr/bin/env bash
# Makes the given targets one after the other, says how long each took, and stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

begun=$SECONDS
report=()
for step in "$@"; do
	echo "== $step"
	start=$SECONDS
	if ! ${MAKE:-make} --no-print-directory "$step"; then
		echo "== $step FAILED after $((SECONDS - start)) s" >&2
		exit 1
	fi
	report+=("$(printf '%-12s %4d s' "$step" $((SECONDS - start)))")
done
printf '%s\n' "== all is well, after $((SECONDS - begun)) s:" "${report[@]}"
