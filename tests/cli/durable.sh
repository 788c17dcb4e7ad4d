#!/bin/sh
# Every file that comes whole or not at all is on the disk before it gets its name, and the name before the program goes on; so is a
# folder that is made. durable.sh RECORDED: the program with a record of what it does to files (recorded.c).
. "$(dirname -- "$0")/common.sh"
. "$here/recorded.sh"
needs 'weights files' fingerprints
python3 "$here/make_data.py" "$work/data" 80 20 || exit 1
mkdir "$work/to"
cd "$work/to" || exit 1
record "$work/to"
of_program() { # FOLDER/ NAME FOLDER
    replaced "$1.$2" "$1$2" "$3"
}
checkpoint() { # NUMBER: its arrays, then the manifest that vouches for them
    of_library "kept/of/run/checkpoint-00000$1.safetensors" kept/of/run
    of_library "kept/of/run/checkpoint-00000$1.json" kept/of/run
}
tried() { # NAME: whether it can be written, before the work
    printf 'write %s.tmp\nremove %s.tmp\n' "$1" "$1"
}

small="--data $work/data --limit-test 20 --batch 40 --quiet --devices cpu:0"
# shellcheck disable=SC2086
runs 0 train $small --steps 2 --save w.safetensors --log log.jsonl --trace trace.json --report pages/ --checkpoint kept/of/run
png=
[ ! -e pages/curve.png ] || png=curve.png # built with pictures
{
    tried w.safetensors
    made kept .
    made kept/of kept
    made kept/of/run kept/of
    echo 'write kept/of/run/lock'
    checkpoint 1
    of_library w.safetensors .
    of_program '' trace.json .
    made pages .
    for name in report.html $png curve.svg; do
        of_program pages/ "$name" pages
    done
    echo 'remove kept/of/run/lock'
} >"$work/wanted"
is_recorded

# The log's first line is another's now; the fourth checkpoint is one more than are kept.
# shellcheck disable=SC2086
runs 0 train $small --steps 4 --log log.jsonl --resume --checkpoint kept/of/run --checkpoint-every 1
{
    echo 'write kept/of/run/lock'
    echo 'write log.jsonl' # cut back to the checkpoint
    of_program '' log.jsonl .
    checkpoint 2
    checkpoint 3
    checkpoint 4
    for ending in json safetensors lock; do
        printf 'remove kept/of/run/%s\n' "$([ $ending = lock ] || echo checkpoint-000001.)$ending"
    done
} >"$work/wanted"
is_recorded

runs 0 predict --data "$work/data" --weights w.safetensors --out logits.npy --limit-test 20 --quiet
of_library logits.npy . >"$work/wanted"
is_recorded
if built_with 'ONNX files'; then
    runs 0 export --weights w.safetensors --onnx w.onnx
    of_library w.onnx . >"$work/wanted"
    is_recorded
else
    part_not_run 'an ONNX file' 'this build has no ONNX files'
fi
ends
