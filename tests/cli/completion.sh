#!/bin/sh
# bash and zsh complete every command, every option and every value of a fixed kind. What is expected is read off the --help texts
# here, independently of tools/help. completion.sh PROGRAM, in the build folder.
. "$(dirname -- "$0")/common.sh"
LC_ALL=C
export LC_ALL
help=$(readlink -f "$(dirname -- "$program")")/help
[ -f "$help/lockstep" ] || none_run "this build has no completions"
needs_tool bash
mkdir "$work/place" "$work/place/folder" "$work/bin" "$work/typed-bash" "$work/typed-zsh"
touch "$work/place/file"
ln -s "$(readlink -f "$program")" "$work/bin/lockstep"

# offers WORDS...: what bash offers for the last word, one a line.
offers() {
    # shellcheck disable=SC2016 # for the inner shell
    (cd "$work/place" && PATH=$work/bin:$PATH bash --norc -c '
        source "$1"
        shift
        COMP_WORDBREAKS=$'"' \\t\\n\"\\''"'"><=;|&(:"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _lockstep
        printf "%s\n" "${COMPREPLY[@]}"' bash "$help/lockstep" lockstep "$@")
}

# offered VALUE WORDS...: VALUE is among them.
offered() {
    value=$1
    shift
    offers "$@" | grep -qxF -- "$value" || wrong "bash does not offer '$value' behind: lockstep $*"
}

exactly() { # VALUES WORDS...
    values=$1
    shift
    got=$(offers "$@" | sort | tr '\n' ' ')
    [ "${got% }" = "$values" ] || wrong "bash offers '${got% }' and not '$values' behind: lockstep $*"
}

"$program" --help | sed -n '/^  lockstep /d; s/^  \([a-z]*\( [a-z][a-z]*\)\{0,1\}\) .*/\1/p' >"$work/commands"
checked=0
# shellcheck disable=SC2086 # a command may be two words
while read -r command; do
    offered "${command%% *}" ''
    case $command in *' '*) offered "${command#* }" "${command%% *}" '' ;; esac
    [ -z "$("$program" $command --help | sed -n '2,/^$/s/^ *lockstep //p; 1s/^usage: lockstep //p' |
        grep -E "^$command [A-Z]" | grep -v -- --)" ] || offered file $command ''
    "$program" $command --help | sed -nE 's/^  (--[a-z][a-z0-9-]*)( [A-Z]+)? .*/\1\2/p' >"$work/options"
    sed -n "/^    '$command')\$/,/;;/p" "$help/_lockstep" >"$work/zsh"
    offers $command -- >"$work/all"
    while read -r option argument; do
        equals=${argument:+=}
        grep -qxF -- "$option$equals" "$work/all" || wrong "bash does not offer $option behind: lockstep $command"
        grep -qF -- "'$option${equals}[" "$work/zsh" || wrong "zsh does not offer $option behind: lockstep $command"
        checked=$((checked + 1))
        case $argument in
        '' | N | X | STEPS | SECONDS | SIZES | TEXT | NAMES | URL) continue ;; # nothing to offer
        NAME) [ "$option" != --allow-changed ] || continue ;;
        FILE) offered file $command "$option" '' && offered file $command "$option" = 'fi' ;;
        DIR) exactly folder $command "$option" '' && exactly folder $command "$option" = fo ;;
        esac
        [ -n "$(offers $command "$option" '')" ] || wrong "bash has no value for $option $argument of $command"
        ! grep -F -- "'${option}=[" "$work/zsh" | grep -q ": '" || wrong "zsh has no value for $option $argument of $command"
    done <"$work/options"
done <"$work/commands"
[ "$checked" -ge 60 ] || wrong "only $checked options were looked at"

# The values are those that the program itself names.
for option in model bn optimizer schedule conv isa dtype; do
    "$program" train --$option '?' 2>&1 | sed 's/.*none of: //; s/, /\n/g' | sort >"$work/values"
    exactly "$(tr '\n' ' ' <"$work/values" | sed 's/ $//')" train --$option ''
    first=$(head -n 1 "$work/values")
    exactly "$(grep "^$first" "$work/values" | tr '\n' ' ' | sed 's/ $//')" train --$option = "$first"
done
exactly 'he normal: xavier' train --init ''
exactly 'lenet' train --mod --model le
exactly '--model=' train --mod
exactly '--help' '--h'
exactly 'copies cores' doctor --skip co
exactly 'mpi,canary' doctor --skip mpi,ca
exactly 'he' train --init h
# bash's words end at the colon.
exactly "$("$program" devices | sed -n '1s/cpu:\([0-9]*\) .*/\1/p')" train --devices cpu : 0
exactly 'fetch' data ''
exactly '' nonsense

for shell in bash zsh; do
    has_tool "what is typed in $shell" $shell || continue
    name=lockstep
    [ $shell = bash ] || name=_lockstep
    $shell -n "$help/$name" || wrong "$shell -n"
    python3 "$here/typed.py" $shell "$help/$name" "$work/typed-$shell" >"$work/out" 2>"$work/err" || wrong "typed into $shell"
done
ends
