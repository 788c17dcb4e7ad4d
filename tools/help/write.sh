#!/bin/sh
# write.sh FOLDER DATE PROGRAM: writes the man page lockstep.1, bash's completion lockstep and zsh's _lockstep into FOLDER, from what
# the program says about itself. DATE is the man page's, as YYYY-MM-DD. All of them are whole or not there.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
folder=$1 date=$2 program=$3
mkdir -p "$folder"
work=$(mktemp -d "$folder/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"$here/describe.sh" "$program" >"$work/described"
awk -v date="$date" -f "$here/man.awk" "$work/described" >"$work/lockstep.1"
awk -f "$here/bash.awk" "$work/described" >"$work/lockstep"
cat "$here/completion.bash" >>"$work/lockstep"
awk -f "$here/zsh.awk" "$work/described" >"$work/_lockstep"
mv "$work/lockstep.1" "$work/lockstep" "$work/_lockstep" "$folder"
