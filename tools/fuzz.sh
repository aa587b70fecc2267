#!/usr/bin/env bash
# Runs every fuzz target of every module on as many inputs, tools/fuzz.sh 20000x, or for a time, tools/fuzz.sh 10s: whose end Go before
# 1.27 may take for a failure (https://go.dev/issue/75804).
set -euo pipefail
cd "$(dirname "$0")/.."

targets=0
while IFS=: read -r file line; do
	target=${line#func }
	target=${target%%(*}
	echo "$target in $(dirname "$file") for $1"
	${GO:-go} test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$(dirname "$file")" | grep -v '^fuzz: elapsed' || {
		status=("${PIPESTATUS[@]}")
		[ "${status[0]}" = 0 ] || exit 1
	}
	targets=$((targets + 1))
done < <(grep -r --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' . | sort)
echo "$targets fuzz targets, $1 each"
