#!/bin/sh
# Fails where the code leaves its room: an #include that points up, files whose includes go in a circle, vendor headers outside their
# files, a file or a folder grown too large, a library that exits or prints, or a public function in the caller's environment. Prints
# each place as FILE:LINE: WHY. Fails too where the picture of the rooms in docs/design.md is not what the includes make of it.
# tools/arrows.sh --draw prints that picture, and tools/arrows.sh --draw --mend writes it into the page. arrows.awk reads the sources.
set -eu
export LC_ALL=C
cd "$(dirname -- "$0")/.."
case "$*" in
"" | --draw | "--draw --mend") ;;
*)
    echo "usage: tools/arrows.sh [--draw [--mend]]" >&2
    exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The rooms that a file of room $1 may include from (its own is always allowed).
allowed() {
    case $1 in
    base) echo "" ;;
    device | cluster) echo "base" ;;
    tensor) echo "device base" ;;
    graph) echo "tensor device base" ;;
    optim | data) echo "device base" ;;
    comm) echo "tensor device cluster base" ;;
    nn | io) echo "graph tensor device base" ;;
    exec) echo "graph tensor device cluster base" ;;
    model) echo "exec io nn data comm cluster graph tensor device base" ;;
    eager) echo "model exec io data comm cluster graph tensor device base" ;;
    train) echo "eager model exec optim data comm cluster graph tensor device base" ;;
    checkpoint) echo "train model io optim data cluster device base" ;;
    diag) echo "train model exec io data cluster graph device base" ;;
    *) return 1 ;;
    esac
}

# The same for the program's rooms in cli/; "." is cli/ itself, which has its commands.
allowed_in_program() {
    case $1 in
    text) echo "" ;;
    system | options) echo "text" ;;
    run) echo "options system text" ;;
    record) echo "system text" ;;
    speed | report) echo "record run options system text" ;;
    live) echo "speed record system text" ;;
    training) echo "report live speed record run options system text" ;;
    .) echo "training report live speed record run options system text" ;;
    *) return 1 ;;
    esac
}

# Public functions that only show a field. The others begin with an environment of their own.
fields='ls_version ls_status_name ls_features ls_failed ls_status_of ls_failed_together ls_message ls_fail ls_session_of ls_isa_name
ls_host ls_cpu ls_gpu ls_notice ls_device_of ls_device_core ls_rank ls_dim ls_rows ls_bytes_moved ls_work_done ls_interrupt
ls_cluster_status ls_cluster_message ls_cluster_rank ls_cluster_ranks ls_cluster_host ls_cluster_process ls_data_about ls_module_class_name ls_data_class ls_data_rows
ls_data_batches ls_module_child ls_module_user ls_profile_rows ls_checkpoints_found ls_checkpoint_note ls_trainer_vote ls_timer_start ls_timer_stop
ls_timer_avg'

# rooms_of TREE TABLE: a line for each room that the table knows: tree, room, the room again, what it may include from.
rooms_of() {
    for folder in "$1" "$1"/*/; do
        room=${folder#"$1"}
        room=${room#/}
        room=${room%/}
        if may=$("$2" "${room:-.}"); then
            printf '%s %s %s %s\n' "$1" "${room:-.}" "${room:-.}" "$may"
        fi
    done
}
rooms=$(rooms_of src allowed && rooms_of cli allowed_in_program)
export rooms fields

# The public headers come first: they name the functions that the sources are asked for.
sources=$(find include -name '*.h' | sort &&
    find src cli examples tests bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort)
# shellcheck disable=SC2086 # a list of files
awk -v picture="$work/picture" -f tools/arrows.awk $sources >"$work/found"
if [ "$*" = --draw ]; then
    cat "$work/picture"
    exit
fi

# The page as it should be: the picture stands between two lines.
page=docs/design.md
begin='<!-- The picture of the rooms, from here: tools/arrows.sh --draw --mend -->'
end='<!-- The picture of the rooms, to here -->'
awk -v picture="$work/picture" -v begin="$begin" -v end="$end" '
    $0 == end { inside = 0; ends++ }
    !inside { print }
    $0 == begin {
        inside = 1; begins++
        print "```"
        while ((getline line <picture) > 0)
            print line
        print "```"
    }
    END { exit inside || begins != 1 || ends != 1 }' "$page" >"$work/page" || {
    echo "$page:1: the picture of the rooms has to stand between the lines \"$begin\" and \"$end\""
    exit 1
}
if [ "$*" = "--draw --mend" ]; then
    cat "$work/page" >"$page"
elif ! cmp -s "$work/page" "$page"; then
    echo "$page:$(grep -nFx -- "$begin" "$page" | cut -d: -f1): this is not the picture that src/ has: tools/arrows.sh --draw --mend" \
        "renews it" >>"$work/found"
fi

if [ -s "$work/found" ]; then
    cat "$work/found"
    printf 'arrows: %s places to mend\n' "$(wc -l <"$work/found")"
    exit 1
fi
echo "arrows: every file keeps to its room"
