#!/bin/sh
# SPDX-License-Identifier: MIT
# What .pre-commit-hooks.yaml runs: the etch that ETCH names or that is installed, or one built here, once.
set -eu
etch=${ETCH:-$(command -v etch || :)}
if [ -z "$etch" ]; then
	root=$(cd "$(dirname "$0")/../.." && pwd)
	etch=$root/build/etch
	if [ ! -x "$etch" ] && ! make -s -C "$root" build/etch >"$root/build.log" 2>&1; then
		tail -5 "$root/build.log" >&2
		echo "etch check: etch is not installed, and could not be built. $root/scripts/deps.sh build installs what the build needs" >&2
		exit 1
	fi
fi
exec "$etch" check "$@"
