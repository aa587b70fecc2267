#!/usr/bin/env bash
# Prints the files of the project whose names match a pattern, in a clone or in an unpacked archive.
set -euo pipefail
cd "$(dirname "$0")/.."

find . \( -name .git -o -path ./bin \) -prune -o -type f -name "$1" -print
