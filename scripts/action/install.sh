#!/bin/bash
# SPDX-License-Identifier: MIT
# The etch that is installed, or one built from the checkout that this file is in (Debian 12, Ubuntu 24.04).
set -eu
if command -v etch >/dev/null; then
	exit 0
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/scripts/deps.sh" build
make -s -j"$(nproc)" -C "$root" build/etch
echo "$root/build" >>"$GITHUB_PATH"
