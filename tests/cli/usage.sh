#!/bin/sh
# Wrong usage is status 2 and one line that names the option and its value; what is refused for another reason is status 1.
. "$(dirname -- "$0")/common.sh"

usage() { # PATTERN ARGUMENTS...
    pattern=$1
    shift
    runs 2 "$@"
    one_line "$pattern"
}

refused() { # PATTERN ARGUMENTS...
    pattern=$1
    shift
    runs 1 "$@"
    one_line "$pattern"
}

usage 'usage: '
usage 'frobnicate: ' frobnicate
usage "'': no such command" ''
usage '--frobnicate: ' train --frobnicate
usage '-x: ' train -x
usage '--batch: needs a value' train --batch
usage '--save: needs a value, and --log is an option; write --save=--log if that is the value' train --save --log x
usage '--strip-prefix: needs a value, and --devices=cpu:0 is an option; ' eval --weights x --strip-prefix --devices=cpu:0
usage '--quiet=1: takes no value' train --quiet=1
usage 'train: .*extra' train extra

# What was meant, by each way to say it. test_options has all words and values.
means() { # MEANT ARGUMENTS...
    meant=$1
    shift
    usage ".*did you mean $meant\?$" "$@"
}
means --batch train --batch-size=64
means --batch train --batchsize 64
means --batch train -batch 64
means --batch train -b 64
means --epochs train --epohcs 3
means --to data fetch --dir x
usage '--momentum: no option of eval, but of train and doctor$' eval --momentum 0.9
means "'lockstep eval'" evla
means "'lockstep data fetch'" download
means "'lockstep predict'" help perdict
usage '--model: the command comes first' --model lenet train
means '--epochs 3' train epochs=3
means '--weights x.safetensors' eval x.safetensors
means "--data $work" train "$work"
usage "train: .*'lockstep help train'" train help
# The documents name commands that there are.
"$program" --help | sed -n '/^  lockstep /d; s/^  \([a-z]*\) .*/lockstep \1/p' >"$work/commands"
printf 'lockstep %s\n' help version >>"$work/commands"
(cd "$here/../.." && grep -ohE '(`|build/|^)lockstep [a-z][a-z-]*' README.md CONTRIBUTING.md docs/*.md) | sed 's/^.*lockstep/lockstep/' | sort -u >"$work/named"
[ "$(wc -l <"$work/named")" -ge 9 ] || wrong "the documents name few commands: $(cat "$work/named")"
unknown=$(grep -vxFf "$work/commands" "$work/named") && wrong "the documents name commands that there are not: $unknown"
# The examples of --help name options that there are, and the report's logs are those that the lines before it write.
python3 - "$program" <<'PY' || wrong "the examples of --help"
import re, subprocess, sys

helps = {name: subprocess.run([sys.argv[1], *name.split(), "--help"], capture_output=True, text=True, check=True).stdout for name in
         ("train", "eval", "predict", "export", "devices", "doctor", "fingerprint", "report", "bench", "data fetch")}
for name, text in helps.items():
    examples = re.findall(r"^  (?:mpirun -n \d+ )?lockstep ((?:data )?[a-z]+)(.*)$", text.partition("\nExample")[2], re.M)
    assert examples and (examples[-1][0] == name or name == "devices"), (name, examples)
    written = set()
    for command, words in examples:
        options = set(re.findall(r" (--[a-z-]+)", words))
        assert options <= set(re.findall(r"^  (--[a-z-]+)", helps[command], re.M)), (name, command, words)
        assert command != "report" or set(re.findall(r"\S+\.jsonl", words)) == written, (name, words, written)
        written.update(re.findall(r"--log (\S+)", words))
PY
usage "--batch: '0' is not a whole number from 1 to 2147483647" train --batch 0
usage '--lr: ' train --lr -1
usage "--model: 'vgg'" train --model vgg
usage "--bn: 100 is not a multiple of the shard's 64 images" train --bn 100
usage "--bn: 64 is not a multiple of the shard's 48 images" train --bn 64 --shard 48
for option in beta1 beta2 eps; do
    usage "--$option: needs --optimizer adam or adamw" train "--$option" 0.5
    usage "--$option: must be above 0" train --optimizer adam "--$option" 0
done
usage '--beta2: must be above 0 and below 1' train --optimizer adamw --beta2 1
usage '--start-factor: needs --schedule linear or one-cycle' train --schedule cosine --start-factor 0.5
usage '--end-factor: needs --schedule cosine' train --end-factor 0.5
usage '--gamma: needs --schedule exponential' train --schedule cosine --gamma 0.5
usage '--period: needs --schedule exponential or warm-restarts' train --schedule linear --period 5
usage '--period-factor: needs --schedule warm-restarts' train --schedule exponential --gamma 0.5 --period-factor 2
usage '--schedule: exponential needs --gamma above 0' train --schedule exponential
usage '--schedule: warm-restarts needs --period' train --schedule warm-restarts
usage '--start-factor: must be above 0' train --schedule linear --start-factor 0
usage '--end-factor: must be above 0' train --schedule one-cycle --end-factor 0
usage '--label-smoothing: must be from 0 to 1' train --label-smoothing 1.1
usage '--momentum: is of sgd' train --optimizer adam --momentum 0.9
usage '--momentum: is of sgd' doctor --optimizer adam --momentum 0.9
usage '--nesterov: ' train --nesterov
usage '--weights: ' eval
usage '--weights: ' predict --out x.npy
usage '--out: ' predict --weights w.safetensors
usage '--out: ' predict --weights w.safetensors --out x.npy shoe.png
usage '--save: ' train --save ''
usage '--timeout: ' train --timeout 0
usage '--momentum: ' eval --weights w.safetensors --momentum 0.9
usage 'fingerprint: ' fingerprint
usage 'fingerprint: ' fingerprint one two
usage 'devices: ' devices extra
usage "version: takes no argument, but got 'extra'" version extra
usage "--version: takes no argument, but got '--quiet'" --version --quiet
usage 'data: ' data
usage 'data: ' data push
for list in cpu cpu: cpu:x cpu:0, ,cpu:0 cpu:1-0 cpu:0,cpu:0 cpu:0-1,cpu:1 cpu:-1 cpu:0x tpu:0 'cpu:0
cpu:1'; do
    usage '--devices: ' train --devices "$list"
done

refused '--devices: ' train --devices cpu:256
refused '--devices: .*there is no cpu:' train --devices cpu:1000001
refused '--devices: .*there is no cpu:' train --devices cpu:0-99999999999999999999
refused '--dtype: tf32 .*GPU' train --dtype tf32
refused '--dtype: bf16 .*GPU' train --dtype bf16
refused '--trace: .*nowhere' train --trace "$work/nowhere/t.json"
refused '--trace: ' train --trace "$work"
usage '--trace: ' train --trace ''
# What is no file is not put out of its place, by root neither; and what cannot be saved is told before the training.
mkfifo "$work/fifo"
long=$(printf '%250s' | tr ' ' w)
for option in save trace; do
    refused "--$option: .*fifo: .*not a regular file" train "--$option" "$work/fifo" --data "$work/nowhere"
    refused "--$option: .*: .*too long" train "--$option" "$work/$long" --data "$work/nowhere"
done
# So is a folder that is a link to nowhere, in which nothing can be made.
ln -s "$work/nowhere" "$work/lost"
refused '--save: .*/lost: is a link that leads nowhere$' train --save "$work/lost/w" --data "$work/nowhere"
has "a report's folder" reports && refused '--report: .*/lost: is a link that leads nowhere$' train --report "$work/lost" --data "$work/nowhere"
for file in report.html curve.png curve.svg; do
    mkdir -p "$work/page"
    rm -f "$work/page"/*
    mkfifo "$work/page/$file"
    printf '%s\n' '{"lockstep":"0.1.0"}' '{"step":1,"loss":2}' >"$work/run.jsonl"
    if has "report beside a FIFO" 'weights files' && has "report beside a FIFO" reports; then
        "$program" report "$work/run.jsonl" --out "$work/page" >"$work/out" 2>"$work/err" && wrong "report wrote over a FIFO"
        grep -q "^lockstep: .*$file: .*not a regular file" "$work/err" || wrong "report does not name the FIFO"
    fi
    [ -p "$work/page/$file" ] || wrong "report replaced a FIFO"
done
[ -p "$work/fifo" ] || wrong "a FIFO was replaced"
# Outputs that are one file are refused before anything is read, whatever they are called; so is one that is an input, or where results go.
cd "$work" || exit 1
mkdir there
echo mine >there/file
ln there/file hard
ln -s file there/link
ln -s there along
ln -s nowhere there/dangling
same() { # OPTIONS...: the last one is named
    usage '--[a-z]+: .* is the same file as ' train --data nowhere "$@"
}
first=--trace
if has "the file of weights beside others" 'weights files'; then
    first=--save
    same --save x --trace x
fi
same $first x --log ./x
same $first there//file --log "$work/../$(basename "$work")/there/./file"
same $first hard --log there/file
same $first there/link --log along/file
same $first there/nowhere --log there/dangling
same $first kept --checkpoint kept/
usage '--checkpoint: ./kept/below cannot be there beside kept of ' train --data nowhere $first kept --checkpoint ./kept/below
same $first kept --checkpoint kept/a/..
same --log look/report.html --report ./look
# A folder that is mounted a second time elsewhere is one folder, also in what is not there yet.
mkdir again
if [ "$(id -u)" = 0 ] && mount --bind there again 2>"$work/err"; then
    same $first there/new --log again/new
    same $first again/deep/new --log there/deep/new
    same --log again/look/report.html --report there/look
    usage '--checkpoint: again/new/below cannot be there beside there/new of ' train --data nowhere $first there/new --checkpoint again/new/below
    usage '--log: again/lock is a name that --checkpoint uses' train --data nowhere --log again/lock --checkpoint there
    umount again
else
    part_not_run "a folder that is mounted twice" "${work:+it takes root and mount --bind}"
fi
for name in lock checkpoint-000001.json checkpoint-000012.safetensors; do
    usage "--log: kept/$name is a name that --checkpoint uses" train --data nowhere --log "kept/$name" --checkpoint ./kept
    usage "--log: along/$name is a name that --checkpoint uses" train --data nowhere --checkpoint there --log "along/$name"
done
refused 'data: ' train --data nowhere --log there/checkpoint --checkpoint there --devices cpu:0
refused 'data: ' train --data nowhere --log /dev/null --report look --checkpoint there --devices cpu:0
usage '--log: along/file is the file that --weights reads' train --data nowhere --weights there/file --log along/file
usage '--out: hard is the file that --weights reads' predict --data nowhere --weights there/file --out hard
usage '--onnx: hard is the file that --weights reads' export --weights there/file --onnx hard
cp there/file there/curve.svg
usage '--out: there/curve.svg is the file that the command reads' report along/curve.svg --out there
"$program" bench --json stream >stream 2>"$work/err"
[ $? = 2 ] && grep -q '^lockstep: --json: stream is where standard output goes' "$work/err" || wrong "--json where standard output goes"
"$program" train --data nowhere --log stream 2>stream
[ $? = 2 ] && grep -q '^lockstep: --log: stream is where standard error goes' stream || wrong "--log where standard error goes"
for name in lock checkpoint-000010.json; do
    "$program" train --data nowhere --checkpoint there >"there/$name" 2>"$work/err"
    [ $? = 2 ] && grep -q '^lockstep: --checkpoint: there is where standard output goes, to a name that the checkpoints use' "$work/err" ||
        wrong "results in a file that checkpoints write: $(cat "$work/err")"
    "$program" train --data nowhere --checkpoint ./kept/../there 2>"there/$name"
    [ $? = 2 ] && grep -q 'there is where standard error goes, to a name that the checkpoints use' "there/$name" ||
        wrong "messages in a file that checkpoints write: $(cat "there/$name")"
    rm "there/$name"
done
[ "$(cat there/file)" = mine ] || wrong "a refused run wrote over a file"
cd / || exit 1
# A FIFO that nobody reads is told, and not waited for.
called='bench --json of a FIFO'
timeout 60 "$program" bench --model lenet --json "$work/fifo" >"$work/out" 2>"$work/err"
[ $? = 1 ] || wrong "$called: is waited for"
one_line '--json: .*fifo: is a FIFO that nobody reads'
usage 'doctor: .*extra' doctor extra
usage '--checkpoint: ' train --checkpoint ''
usage '--resume: needs --checkpoint' train --resume
usage '--checkpoint-every: needs --checkpoint' train --checkpoint-every 10m
usage '--allow-changed: needs --checkpoint' train --allow-changed lr
usage '--allow-changed: needs --resume' train --checkpoint "$work/none" --allow-changed lr
[ ! -e "$work/none" ] || wrong "wrong usage made a folder"
refused 'data: .*nowhere' train --data "$work/nowhere" --devices cpu:0
refused '--save: .*nowhere' train --save "$work/nowhere/w.safetensors"
refused '--save: ' train --save "$work"
refused '--weights: .*nothing' eval --weights "$work/nothing"
refused 'fingerprint: .*nothing' fingerprint "$work/nothing"

runs 0 --help
grep -q '^usage: lockstep ' "$work/out" || wrong "no usage in --help"
for command in train eval predict export bench devices doctor fingerprint report 'data fetch'; do
    grep -q "  $command" "$work/out" || wrong "--help does not list $command"
done
# shellcheck disable=SC2086 # two words for data fetch
for command in train eval predict export bench 'data fetch' devices doctor fingerprint report; do
    runs 0 $command --help
    grep -q 'xample' "$work/out" || wrong "$command --help has no example"
    [ ! -s "$work/err" ] || wrong "$command --help says something on stderr"
done
runs 0 train --help
# The usual first weights of LeNet are too small for examples that end after few epochs: those would end at chance.
! grep '^  lockstep train .*--epochs' "$work/out" | grep -v 'resnet18\|--init xavier' || wrong "an example of train --help does not learn"
! grep -q 'shuffle-pulls' "$work/out" || wrong "train --help shows what is not for use"
"$program" train --help >"$work/expected"
for same in 'train -h' 'help train' 'train --hel'; do
    # shellcheck disable=SC2086 # words
    runs 0 $same
    cmp "$work/expected" "$work/out" || wrong "$same is not train --help"
done
"$program" data fetch --help >"$work/expected"
for same in 'data -h' 'help data' 'help data fetch'; do
    # shellcheck disable=SC2086 # words
    runs 0 $same
    cmp "$work/expected" "$work/out" || wrong "$same is not data fetch --help"
done
"$program" --help >"$work/expected"
for same in help -h 'help help' 'help version' 'version --help'; do
    # shellcheck disable=SC2086 # words
    runs 0 $same
    cmp "$work/expected" "$work/out" || wrong "$same is not --help"
done
"$program" --version >"$work/expected"
for same in version -V; do
    runs 0 $same
    cmp "$work/expected" "$work/out" || wrong "$same is not --version"
done
runs 0 --version
head -n 1 "$work/out" | grep -qE '^lockstep [0-9]+\.[0-9]+\.[0-9]+$' || wrong "--version"
runs 0 devices
grep -qE '^cpu:0 ' "$work/out" || wrong "devices does not list cpu:0"

# What the library tells its callers in C to do is said in the program's words: cli/text/say.c has each such name that a user's
# files, devices and options can bring up.
src=$here/../../src
for name in $(find "$src/data" "$src/io" "$src/device" "$src/base" "$src/cluster" "$src/comm" "$src/model/weights.c" \
    "$src/checkpoint/checkpoint.c" "$src/model/export.c" "$src/checkpoint/settings.c" -name '*.c' -exec \
    awk -F '"' '!/^#include/ { for (i = 2; i <= NF; i += 2) print $i }' {} + |
    grep -oE '[^ ] ls_[a-z_.]+|^ ?ls_[a-z_]+\.[a-z_.]+' | grep -oE 'ls_[a-z_.]+' | sort -u); do
    grep -q "{\"$name\"" "$here/../../cli/text/say.c" || wrong "a message of the library says $name, which cli/text/say.c does not know"
done
# Tasks without an MPI: each says so, as it cannot know whether there is another.
for rank in 0 1; do
    WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank refused 'start: torchrun .* started 2 tasks without MPI' train --limit 10
    SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 refused 'start: srun started 2 tasks without MPI' train --limit 10
    SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 usage '--bad: unknown' train --bad
done
unset LOCKSTEP_DATA
refused 'data: npy: its folder is not named; set --data or \$LOCKSTEP_DATA$' train --dataset npy --devices cpu:0
ends
