#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs etch check as the inputs of action.yml say: findings to the log and the summary, SARIF to a file. Whether they
# fail the job is left to the last step, so that what was found is uploaded in any case.
set -u
options=(--compiler "$ETCH_COMPILER")
if [ -n "$ETCH_BASELINE" ]; then
	options+=(--baseline "$ETCH_BASELINE" --create-baseline)
fi
while IFS= read -r line; do
	[ -z "$line" ] || options+=("$line")
done <<<"$ETCH_MORE"
files=()
while IFS= read -r line; do
	[ -z "$line" ] || files+=("$line")
done <<<"$ETCH_FILES"
made=
if [ -n "$ETCH_BASELINE" ] && [ ! -e "$ETCH_BASELINE" ]; then
	made=$ETCH_BASELINE
fi

report=$(mktemp)
etch check "${options[@]}" --fail-on "$ETCH_FAIL_ON" -- "${files[@]}" >"$report"
status=$?
cat "$report"
etch check "${options[@]}" --fail-on never --format sarif -o "$ETCH_SARIF" -- "${files[@]}" 2>/dev/null

{
	echo "### etch check"
	echo '````text'
	head -c 900000 "$report" # GitHub takes 1 MiB
	echo '````'
} >>"$GITHUB_STEP_SUMMARY"
rm -f "$report"
if [ -n "$made" ] && [ -e "$made" ]; then
	echo "::warning title=etch check::$made was written. Commit it, and only new findings will count from then on"
	echo "baseline-made=$made" >>"$GITHUB_OUTPUT"
fi
echo "sarif=$ETCH_SARIF" >>"$GITHUB_OUTPUT"
echo "status=$status" >>"$GITHUB_OUTPUT"
