#!/usr/bin/env bash
# Runs every fuzz target of every module for the given time, or as many inputs: tools/fuzz.sh 10s, tools/fuzz.sh 5000x
set -euo pipefail
cd "$(dirname "$0")/.."

targets=0
while IFS=: read -r file line; do
	target=${line#func }
	target=${target%%(*}
	echo "$target in $(dirname "$file") for $1"
	if ! out=$(${GO:-go} test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$(dirname "$file")" 2>&1); then
		# Go before 1.27 may take the end of the time for a failure (https://go.dev/issue/75804). What fails by an input writes that down.
		if [[ $out != *"context deadline exceeded"* || $out == *"Failing input"* || $out == *panic* ]]; then
			echo "$out"
			exit 1
		fi
		echo "the time was over in the midst of an input"
	fi
	tail -n 1 <<<"$out"
	targets=$((targets + 1))
done < <(grep -r --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' . | sort)
echo "$targets fuzz targets, $1 each"
