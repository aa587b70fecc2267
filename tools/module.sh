#!/usr/bin/env bash
# Gives all modules another path: tools/module.sh example.com/soloist
# The path stands in go.mod; everything else, imports and documents too, is rewritten to follow it.
set -euo pipefail
cd "$(dirname "$0")/.."

new=${1:-}
if ! [[ $new =~ ^[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(/[A-Za-z0-9._~-]+)+$ ]]; then
	echo "say which: make module MODULE=example.com/soloist" >&2
	exit 64
fi
old=$(sed -n 's/^module //p' go.mod)
pattern=$(sed 's/[.]/\\./g' <<<"$old")
for kind in '*.go' go.mod '*.md' '*.txtar' '*.yml' '*.golden'; do
	tools/files.sh "$kind"
done | xargs -d '\n' grep -lF -- "$old" | xargs -d '\n' sed -i "s|$pattern|$new|g"
gofmt -w $(tools/files.sh '*.go')
${GO:-go} build work
echo "$old is $new now, and builds"
