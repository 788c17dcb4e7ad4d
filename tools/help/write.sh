#!/bin/sh
# write.sh FOLDER DATE PROGRAM...: writes the man page lockstep.1, bash's completion lockstep and zsh's _lockstep into FOLDER, from
# what the program says about itself. DATE is the man page's, as YYYY-MM-DD.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
folder=$1 date=$2
shift 2
mkdir -p "$folder"
"$here/describe.sh" "$@" >"$folder/described"
awk -v date="$date" -f "$here/man.awk" "$folder/described" >"$folder/lockstep.1"
awk -f "$here/bash.awk" "$folder/described" >"$folder/lockstep"
cat "$here/completion.bash" >>"$folder/lockstep"
awk -f "$here/zsh.awk" "$folder/described" >"$folder/_lockstep"
