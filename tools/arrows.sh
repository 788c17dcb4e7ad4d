#!/bin/sh
# Fails where the code leaves its room: an #include that points up, vendor headers outside their files, a program file grown
# too long, a library that exits or prints, or a public function in the caller's environment. Prints each place as FILE:LINE: WHY.
set -eu
cd "$(dirname -- "$0")/.."
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# The rooms that a file of room $1 may include from (its own is always allowed).
allowed() {
    case $1 in
    base) echo "" ;;
    device | cluster) echo "base" ;;
    tensor) echo "device base" ;;
    graph) echo "tensor device base" ;;
    comm) echo "graph tensor device cluster base" ;;
    nn | optim | data) echo "graph tensor device base" ;;
    io) echo "nn optim data comm cluster graph tensor device base" ;;
    exec) echo "graph tensor device cluster base" ;;
    model) echo "exec io nn data comm cluster graph tensor device base" ;;
    eager) echo "model exec io data comm cluster graph tensor device base" ;;
    train) echo "eager model exec optim data comm cluster graph tensor device base" ;;
    checkpoint) echo "train model io optim data cluster base" ;;
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

# room_of PATH: the room of a file or of an #include relative to src/ or cli/; "." for what lies beside the rooms.
room_of() {
    case $1 in
    */*) printf '%s\n' "${1%%/*}" ;;
    *) echo . ;;
    esac
}

# report FILE LINE WHY
report() {
    printf '%s:%s: %s\n' "$1" "$2" "$3" >>"$found"
}

check_rooms() { # FILE LINE HEADER TABLE FROM TO
    [ "$5" != "$6" ] || return 0
    if ! rooms=$("$4" "$5"); then
        report "$1" "$2" "$5 is no room that this check knows"
        return 0
    fi
    case " $rooms " in
    *" $6 "*) ;;
    *) report "$1" "$2" "$5 must not include from $6 ($3)" ;;
    esac
}

check_include() { # FILE LINE HEADER QUOTED(1 or 0)
    case $3 in
    *intrin.h | arm_neon.h | arm_sve.h | arm_acle.h)
        [ "$1" = src/device/cpu/lanes/lanes.h ] || report "$1" "$2" "SIMD intrinsics outside lanes.h" ;;
    cuda*.h | cudnn*.h | cublas*.h | nvrtc.h | nccl.h)
        case $1 in
        src/device/cuda/* | src/comm/nccl* | tests/emulated/*) ;;
        *) report "$1" "$2" "CUDA header outside device/cuda and comm/nccl" ;;
        esac ;;
    mpi.h)
        case $1 in
        include/lockstep_mpi.h) ;;
        *) report "$1" "$2" "mpi.h outside lockstep_mpi.h" ;;
        esac ;;
    lockstep_mpi.h)
        case $1 in
        src/cluster/mpi/* | examples/* | tests/* | bench/*) ;;
        *) report "$1" "$2" "lockstep_mpi.h is for programs that have MPI, and for the plugins" ;;
        esac ;;
    protobuf-c/* | *.pb-c.h)
        case $1 in
        src/io/onnx* | tests/*) ;;
        *) report "$1" "$2" "ONNX's messages outside io/onnx" ;;
        esac ;;
    dnnl*.h | oneapi/*)
        case $1 in
        tests/* | bench/*) ;;
        *) report "$1" "$2" "oneDNN is for tests and bench" ;;
        esac ;;
    esac
    case $1 in
    examples/*)
        [ "$4" = 0 ] || [ -f "$(dirname -- "$1")/$3" ] || [ "$3" = lockstep.h ] ||
            report "$1" "$2" "$3: the examples use the public headers alone" ;;
    cli/*)
        [ "$4" = 1 ] || return 0
        case $3 in
        *..*) header= ;;
        *) header=cli/$3 ;;
        esac
        if [ -f "$header" ]; then
            check_rooms "$1" "$2" "$3" allowed_in_program "$(room_of "${1#cli/}")" "$(room_of "$3")"
        else
            report "$1" "$2" "$3: the program uses its own headers, by their paths in cli/, and the public ones alone"
        fi ;;
    src/*)
        [ "$4" = 1 ] || return 0
        file=${1#src/}
        from=$(room_of "$file")
        # An #include without a folder, or one found beside the file, stays in its folder.
        [ ! -f "$(dirname -- "$1")/$3" ] || return 0
        to=$(room_of "$3")
        [ "$to" != . ] || return 0
        check_rooms "$1" "$2" "$3" allowed "$from" "$to" ;;
    esac
}

# FILE:LINE:#include <HEADER> of every source, as "FILE LINE HEADER QUOTED".
find src cli examples include tests bench -name '*.[ch]' -o -name '*.cu' 2>/dev/null | sort |
    xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' /dev/null |
    sed -nE 's/^([^:]+):([0-9]+):[^<"]*([<"])([^>"]+)[>"].*/\1 \2 \4 \3/p' |
    while read -r file line header kind; do
        quoted=0
        [ "$kind" = '"' ] && quoted=1
        check_include "$file" "$line" "$header" "$quoted"
    done

find src cli examples include tests bench -name '*.[ch]' 2>/dev/null | sort | while read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || report "$file" "$lines" "longer than 800 lines"
done

# The library never exits, prints, or catches signals. Comments and strings are taken out first, by the preprocessor's rules for
# one line: what stands between quotes or behind // and /* is not code.
find src -name '*.[ch]' | sort | while read -r file; do
    sed -E -e 's/\\"//g; s/"[^"]*"/""/g; s,//.*,,; s,/\*[^*]*\*+([^/*][^*]*\*+)*/,,g' -e '/\/\*/,/\*\//s/.*//' "$file" |
        grep -nE '(^|[^A-Za-z0-9_.>])(exit|_exit|_Exit|quick_exit|abort|assert|printf|vprintf|puts|putchar|perror|psignal|signal|sigaction)[[:space:]]*\(|(^|[^A-Za-z0-9_])(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)([^A-Za-z0-9_]|$)' |
        while IFS=: read -r line code; do
            report "$file" "$line" "the library exits, prints or catches signals:$code"
        done || true
done

# A public function that does more than show a field first takes an environment of its own (base/environment.h): what the program has
# set, such as how it rounds and its locale, must reach neither numbers nor files.
fields='ls_version ls_status_name ls_features ls_failed ls_status_of ls_failed_together ls_message ls_fail ls_session_of ls_isa_name
ls_host ls_cpu ls_gpu ls_notice ls_device_of ls_device_core ls_rank ls_dim ls_rows ls_bytes_moved ls_work_done ls_cluster_status
ls_cluster_message ls_cluster_rank ls_cluster_ranks ls_cluster_host ls_cluster_process ls_data_about ls_class_name ls_data_class ls_data_rows
ls_data_batches ls_child ls_user ls_profile_rows ls_checkpoints_found ls_checkpoint_note ls_ask ls_timer_start ls_timer_stop
ls_timer_avg'
public=$(sed -nE 's/^[A-Za-z_][A-Za-z0-9_ *]* \*?(ls_[a-z0-9_]+)\(.*/\1/p' $(ls include/*.h | grep -v _mpi))
find src -name '*.c' | sort | xargs awk -v public="$public" -v fields="$fields" '
    BEGIN {
        split(public, names); for (i in names) all[names[i]] = 1
        split(fields, names); for (i in names) delete all[names[i]]
    }
    FNR == 1 { name = "" }
    name != "" && begun { if ($0 != "    LS_OWN_ENVIRONMENT;") print FILENAME, FNR, name; name = "" }
    name != "" && /^\{/ { begun = 1 }
    /^[A-Za-z_][A-Za-z0-9_ *]*[ *]ls_[a-z0-9_]+\(/ && !/^(static|typedef)/ && !/;$/ {
        name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); begun = 0
        if (!(name in all)) name = ""
    }' | while read -r file line name; do
    report "$file" "$line" "$name does not begin with LS_OWN_ENVIRONMENT"
done

if [ -s "$found" ]; then
    cat "$found"
    printf 'arrows: %s places to mend\n' "$(wc -l <"$found")"
    exit 1
fi
echo "arrows: every file keeps to its room"
