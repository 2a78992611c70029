#!/bin/sh
# SPDX-License-Identifier: MIT
# Draws docs/guides/sarif.png: what `etch check --format sarif` writes, in the viewer that Azure DevOps shows
# (@microsoft/sarif-web-component). Needs npm, a headless Chromium, and etch (ETCH, build/etch by default).
#
#     scripts/sarif_picture.sh [OUT.png]
set -eu
cd "$(dirname "$0")/.."
etch=$(realpath "${ETCH:-build/etch}")
out=$(realpath "${1:-docs/guides/sarif.png}")
cd "$(mktemp -d)"
cat >parse.c <<'END'
#include <stddef.h>

struct packet {
	unsigned char kind;
	unsigned length;
};

int packet_check(const struct packet *p, size_t size)
{
	int kept;

	__asm__("test %1, %1\n\tje 1f\n\tpush %%rbx\n1:\tmov $1, %0" : "=r"(kept) : "r"(size) : "cc");
	return kept && p->length <= size;
}
END
cat >start.s <<'END'
	.globl	start
	.type	start,@function
start:	.cfi_startproc
	push	%rbx
	call	packet_check
	pop	%rbx
	ret
	.cfi_endproc
	.size	start,.-start
	.section .note.GNU-stack
END
cat >page.jsx <<'END'
import * as React from 'react'
import * as ReactDOM from 'react-dom'
import { Viewer } from '@microsoft/sarif-web-component'
import log from './etch.json'
ReactDOM.render(<Viewer logs={[log]} showSuppression hideBaseline />, document.getElementById('app'))
END
echo '<!DOCTYPE html><body style="margin:0;height:100%;font-family:sans-serif"><div id="app"></div><script src="page.js"></script>' >page.html
cc -O2 -g -fcf-protection=none -c parse.c
cc -g -c start.s
"$etch" check --format sarif -o etch.json --fail-on never parse.o start.o
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @microsoft/sarif-web-component@0.6.0-29 esbuild react@16 react-dom@16
node_modules/.bin/esbuild page.jsx --bundle --log-level=error --outfile=page.js --define:global=window \
	--define:process.env.NODE_ENV='"production"' $(printf -- '--loader:.%s=dataurl ' woff woff2 ttf eot svg png)
browser=$(command -v chromium-headless-shell chromium google-chrome | head -1)
"$browser" --headless --no-sandbox --allow-file-access-from-files --window-size=900,400 --virtual-time-budget=8000 \
	--screenshot="$out" "file://$PWD/page.html" 2>/dev/null
