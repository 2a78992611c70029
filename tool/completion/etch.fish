# SPDX-License-Identifier: MIT
# fish completion for etch. What there is to complete is read from `etch --help` and
# `etch COMMAND --help`, so that it is never another version's.

function __etch_commands
	etch --help 2>/dev/null | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) +(.*)/\1\t\2/p'
end

function __etch_command
	set -l words (commandline -opc)
	test (count $words) -ge 2; and echo $words[2]
end

function __etch_before_dashes
	test (count (commandline -opc)) -ge 2; and not contains -- -- (commandline -opc)
end

# "--name<TAB>description", one an option.
function __etch_options
	etch (__etch_command) --help 2>/dev/null | sed -nE 's/^ +(-[A-Za-z0-9], )?(--[a-z0-9-]+)[ =]?([^ ]*)( +(.*))?/\2\t\5/p'
end

# The values of the option before the cursor, where its help names them as a|b|c; the IDs of findings where it says ID.
function __etch_values
	set -l words (commandline -opc)
	set -l option $words[-1]
	string match -q -- '-*' $option; or return
	if contains -- $option --explain --ignore
		etch check --list 2>/dev/null | string match -r '^ETCH-[A-Z][0-9]+'
		return
	end
	etch (__etch_command) --help 2>/dev/null |
		sed -nE "s/^ +((-[A-Za-z0-9]), )?(--[a-z0-9-]+)[ =]([a-z0-9]+(\|[a-z0-9]+)+).*/\2 \3 \4/p" |
		while read -l -a line
			contains -- $option $line[1..-2]; and string split '|' $line[-1]
		end
end

function __etch_views
	test (count (commandline -opc)) -eq 2
	and etch (__etch_command) --help 2>/dev/null |
		sed -nE '1s/^Usage: etch [a-z]+ \[([a-z]+(\|[a-z]+)+)\].*/\1/p' | string split '|'
end

function __etch_wants_value
	__etch_before_dashes; and test -n "$(__etch_values)"
end

function __etch_wants_option
	__etch_before_dashes; and string match -q -- '-*' (commandline -ct)
end

complete -c etch -n 'test (count (commandline -opc)) -eq 1' -f -a '(__etch_commands)'
complete -c etch -n __etch_wants_option -a '(__etch_options)'
complete -c etch -n __etch_wants_value -f -a '(__etch_values)'
complete -c etch -n __etch_before_dashes -a '(__etch_views)'
