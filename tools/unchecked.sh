#!/usr/bin/env bash
# Says what the last run of the tests, and of make vuln after it, has not checked.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -s bin/unchecked/tests ]]; then
	echo "== skipped (package, tests, why):"
	cat bin/unchecked/tests
elif [[ -e bin/unchecked/tests ]]; then
	echo "== no test was skipped"
fi
if [[ -e bin/unchecked/vulnerabilities ]]; then cat bin/unchecked/vulnerabilities; fi
