#!/bin/sh
# describe.sh PROGRAM: what --help says, as lines of fields with tabs between, for the awk scripts beside this one. Fails where a text
# is not laid out as these lines need it.
#
#   version  VERSION
#   overview LINE                                   of `lockstep --help`, each line
#   command  COMMAND SUMMARY OPERAND                OPERAND is empty, or FILE where the command takes files
#   page     COMMAND LINE                           of `lockstep COMMAND --help`, each line
#   option   COMMAND --NAME ARGUMENT KIND VALUES HELP
#
# KIND is flag, file, folder, devices, choice (one of VALUES), list (several of VALUES, with commas between) or text.
set -eu
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
tab=$(printf '\t')

fail() {
    printf 'describe.sh: %s\n' "$*" >&2
    exit 1
}

# The values that an option takes, asked of the program: it answers one that it cannot take with the list of those it can. Capital
# letters stand for what the user has to write. The --help behind it stops the program where the value is taken after all.
values_of() { # COMMAND... --OPTION
    "$program" "$@" '?' --help </dev/null 2>&1 >/dev/null | sed -n "s/^lockstep: .* is none of: //p" | sed 's/[A-Z]*//g; s/,//g'
}

# COMMAND, SUMMARY and OPERAND of each line of the overview's table.
commands() {
    sed -n '/^  lockstep /d; s/^  \([a-z][a-z ]*[a-z]\)\( [A-Z][A-Z.]*\)\{0,1\}   *\([a-z].*\)$/\1\t\3\t\2/p' "$work/overview" |
        sed "s/$tab [A-Z.]*\$/${tab}FILE/"
}

# --NAME, ARGUMENT and HELP of each option of a help text; further lines of a help are joined.
options() { # COMMAND's help
    awk '
        function flush() { if (name) printf "%s\t%s\t%s\n", name, argument, help; name = "" }
        /^  --/ {
            flush()
            match($0, /--[a-z][a-z0-9-]*/); name = substr($0, RSTART, RLENGTH); rest = substr($0, RSTART + RLENGTH)
            argument = ""
            if (match(rest, /^ [A-Z]+ +/)) { argument = substr(rest, 2, RLENGTH - 1); rest = substr(rest, RLENGTH + 1) }
            gsub(/ /, "", argument); sub(/^ +/, "", rest); help = rest
            next
        }
        name && /^     / { sub(/^ +/, ""); help = help " " $0; next }
        { flush() }
        END { flush() }' "$1"
}

"$program" --help >"$work/overview" </dev/null || fail "--help failed"
"$program" --version </dev/null | sed -n '1s/^lockstep /version\t/p'
sed 's/^/overview\t/' "$work/overview"
commands >"$work/commands"
[ -s "$work/commands" ] || fail "--help lists no commands"
while IFS=$tab read -r command summary operand; do
    printf 'command\t%s\t%s\t%s\n' "$command" "$summary" "$operand"
    # shellcheck disable=SC2086 # a command may be two words
    "$program" $command --help >"$work/page" </dev/null || fail "$command --help failed"
    sed "s/^/page$tab$command$tab/" "$work/page"
    options "$work/page" >"$work/options"
    grep -q "^--help$tab" "$work/options" || fail "$command --help has no options"
    while IFS= read -r line; do
        name=${line%%"$tab"*} line=${line#*"$tab"}
        argument=${line%%"$tab"*} help=${line#*"$tab"}
        kind=text values=
        case $argument in
        '') kind=flag ;;
        FILE) kind='file' ;;
        DIR) kind=folder ;;
        LIST) kind=devices ;;
        *)
            # shellcheck disable=SC2086
            values=$(values_of $command "$name")
            [ -z "$values" ] || kind=choice
            case $kind,$help in choice,*'several with commas'*) kind=list ;; esac
            ;;
        esac
        printf 'option\t%s\t%s\t%s\t%s\t%s\t%s\n' "$command" "$name" "$argument" "$kind" "$values" "$help"
    done <"$work/options"
done <"$work/commands"
