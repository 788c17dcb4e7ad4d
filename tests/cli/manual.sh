#!/bin/sh
# The man page has every line of every --help, and renders without a warning. manual.sh PROGRAM, in the build folder.
. "$(dirname -- "$0")/common.sh"
page=$(dirname -- "$program")/help/lockstep.1
[ -f "$page" ] || none_run "this build has no man page"

clean() { # COMMAND...: says nothing
    "$@" >"$work/out" 2>"$work/err" || wrong "$*: status $?"
    [ ! -s "$work/err" ] || wrong "$* warns"
}

# words FILE: its words in order, one a line, in a text that no line break can change.
words() {
    tr -s ' \n' '\n\n' <"$1" | grep -v '^$'
}

rendered=
if has_tool "the page in mandoc" mandoc; then
    clean mandoc -Tlint "$page"
    [ ! -s "$work/out" ] || wrong "mandoc -Tlint"
    mandoc -Tascii -Owidth=1000 "$page" | sed 's/.\x08//g' >"$work/mandoc"
    rendered="$rendered $work/mandoc"
fi
if has_tool "the page in groff" groff; then
    clean groff -man -ww -Tascii -P-c -rLL=1000n -rHY=0 "$page"
    sed 's/.\x08//g' "$work/out" >"$work/groff"
    rendered="$rendered $work/groff"
fi
if man -w ls >/dev/null 2>&1 || { part_not_run "the page in man" "there is no man, or it has no pages"; false; }; then
    clean man --warnings -E UTF-8 -l "$page"
fi
[ -n "$rendered" ] || none_run "there is neither mandoc nor groff"

"$program" --help | sed -n '/^  lockstep /d; s/^  \([a-z]*\( [a-z][a-z]*\)\{0,1\}\) .*/\1/p' >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 9 ] || wrong "--help lists $(wc -l <"$work/commands") commands"
for text in $rendered; do
    # shellcheck disable=SC2086 # lists of words
    while read -r command; do
        "$program" $command --help | sed '1s/^usage: //' >"$work/help"
        echo $(words "$work/help") >"$work/expected"
        echo $(words "$text") >"$work/got"
        grep -qF -- "$(cat "$work/expected")" "$work/got" || wrong "$text does not have the text of '$command --help'"
    done <"$work/commands"
done
ends
