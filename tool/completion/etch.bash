# SPDX-License-Identifier: MIT
# bash completion for etch. What there is to complete is read from `etch --help` and
# `etch COMMAND --help`, so that it is never another version's.

# Lines "name<TAB>argument", one an option, of a command's help.
_etch_options() {
	"$1" "$2" --help 2>/dev/null | sed -nE \
		-e 's/^ +(-[A-Za-z0-9]), (--[a-z0-9-]+)[ =]?([^ ]*).*/\1\t\3\n\2\t\3/p;t' \
		-e 's/^ +(--[a-z0-9-]+)[ =]?([^ ]*).*/\1\t\2/p;t' \
		-e 's/^ +(-[A-Za-z0-9]) ?([^ ]*) .*/\1\t\2/p'
}

_etch() {
	local etch=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} i words argument

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		words=$("$etch" --help 2>/dev/null | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p')
		COMPREPLY=($(compgen -W "$words --help --version" -- "$cur"))
		return
	fi
	# --name=value comes as three words.
	[[ $cur == = ]] && cur=
	[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # a command to run, and its arguments
			if [[ $prev == -- ]]; then
				COMPREPLY=($(compgen -c -- "$cur"))
			else
				compopt -o default
			fi
			return
		fi
	done
	if [[ $prev == -* ]]; then
		argument=$(_etch_options "$etch" "$command" | awk -F'\t' -v o="$prev" '$1 == o { print $2; exit }')
		case $argument in
		*\|*) COMPREPLY=($(compgen -W "${argument//|/ }" -- "$cur")) ; return ;;
		ID | RULE) COMPREPLY=($(compgen -W "$("$etch" check --list 2>/dev/null | grep -o '^ETCH-[A-Z][0-9]*')" -- "$cur")) ; return ;;
		FILE* | OUT* | OLD* | *.json) compopt -o default ; return ;;
		DIR*) compopt -o dirnames ; return ;;
		?*) return ;;
		esac
	fi
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(_etch_options "$etch" "$command" | cut -f1 | grep '^--')" -- "$cur"))
		return
	fi
	if ((COMP_CWORD == 2)); then
		words=$("$etch" "$command" --help 2>/dev/null | sed -nE '1s/^Usage: etch [a-z]+ \[([a-z]+(\|[a-z]+)+)\].*/\1/p')
		COMPREPLY=($(compgen -W "${words//|/ }" -- "$cur") $(compgen -f -- "$cur"))
		compopt -o filenames
		return
	fi
	compopt -o default
}
complete -F _etch etch
