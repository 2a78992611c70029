# SPDX-License-Identifier: MIT
# Prints a page of docs/ as `make install` installs it: a link to a file that is not installed, such as a source file or a
# report, becomes its text.
#
#     awk -v page=guides/make.md -v installed='README.md check.md guides/make.md' -f docs/installed_links.awk docs/guides/make.md
#
# `page` and `installed` are paths in docs/.

BEGIN {
	count = split(installed, names, " ")
	for (i = 1; i <= count; i++) {
		there[names[i]] = 1
		while (sub(/\/[^\/]*$/, "", names[i]))
			there[names[i]] = 1
	}
	folder = page
	if (!sub(/[^\/]*$/, "", folder))
		folder = ""
}

# The path in docs/ of a link's target.
function resolved(target, path)
{
	sub(/#.*/, "", target)
	if (target == "")
		return page
	path = folder target
	while (sub(/[^\/.][^\/]*\/\.\.\//, "", path))
		;
	return path
}

function kept(target)
{
	return target ~ /^[a-z]+:/ || resolved(target) in there
}

# Text outside of code blocks, whose links may go over several lines.
function flush_text(    rest, at, target, open)
{
	rest = text
	text = ""
	while ((at = index(rest, "](")) > 0) {
		text = text substr(rest, 1, at - 1)
		rest = substr(rest, at + 2)
		if (!match(rest, /^[^() \t\n]+\)/)) {
			text = text "]("
			continue
		}
		target = substr(rest, 1, RLENGTH - 1)
		rest = substr(rest, RLENGTH + 1)
		for (open = length(text); open > 0 && substr(text, open, 1) != "["; open--)
			;
		if (kept(target) || !open)
			text = text "](" target ")"
		else
			text = substr(text, 1, open - 1) substr(text, open + 1)
	}
	printf "%s", text rest
	text = ""
}

/^```/ {
	if (!code)
		flush_text()
	code = !code
	print
	next
}

code { print; next }
{ text = text $0 "\n" }
END { flush_text() }
