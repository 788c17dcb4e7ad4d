#!/bin/sh
# What goes with optimizers: the same fingerprint and log on any devices and instruction set and after a break, and runs that end when
# no better epoch comes. optimizers.sh PROGRAM
. "$(dirname -- "$0")/common.sh"
needs 'weights files' fingerprints
python3 "$here/make_data.py" "$work/data" 400 120 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
small="--limit 300 --limit-test 100 --batch 64 --shard 16 --epochs 2"
kept="--checkpoint $work/kept"

lines() { # what a log says of steps and epochs, but for the times
    sed -e 1d -e 's/,"sec":.*//' "$work/run.jsonl"
}

anywhere() { # OPTIONS...: the same on any devices and instruction set
    rm -rf "$work/kept"
    # shellcheck disable=SC2086 # options
    runs 0 train $small --devices cpu:0 --log "$work/run.jsonl" "$@"
    one=$(tail -n 1 "$work/out")
    lines >"$work/lines"
    grep -q '"step":10,' "$work/lines" || wrong "$called: not 10 steps"
    for where in 'cpu:0-1' 'cpu:0-2 --isa avx2'; do
        # shellcheck disable=SC2086
        runs 0 train $small --quiet --devices $where --log "$work/run.jsonl" "$@"
        [ "$(tail -n 1 "$work/out")" = "$one" ] || wrong "$called: another fingerprint"
        lines | cmp -s - "$work/lines" || wrong "$called: another log"
    done
    printf '%s  %s\n' "$one" "$*"
}

same() { # OPTIONS...: after a break too
    anywhere "$@"
    # shellcheck disable=SC2086
    runs 0 train $small $kept --quiet --devices cpu:0-1 --steps 7 "$@"
    # shellcheck disable=SC2086
    runs 0 train $small $kept --quiet --devices cpu:0-2 --resume "$@"
    [ "$(tail -n 1 "$work/out")" = "$one" ] || wrong "$called: another fingerprint after a break"
}

first() { # JSON: members of the first line of what was logged last
    python3 - "$work/run.jsonl" "$1" <<'PY' || wrong "$called: the first line of the log"
import json, sys
line = json.loads(open(sys.argv[1], encoding="utf-8").readline())
for name, value in json.loads(sys.argv[2]).items():
    assert line[name] == value, (name, line[name], value)
PY
}

same --optimizer adam
first '{"optimizer": "adam", "lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0}'
same --optimizer adamw --lr 0.01 --beta1 0.8 --beta2 0.95 --eps 1e-6 --warmup 3
first '{"optimizer": "adamw", "lr": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.01}'
same --lr 0.3 --label-smoothing 0.1
first '{"optimizer": "sgd", "label_smoothing": 0.1}'
# A schedule's length is a setting, so that --steps would make it another run: checkpoint.sh resumes such a run from an earlier checkpoint.
anywhere --lr 0.1 --momentum 0.9 --nesterov --weight-decay 0.001 --schedule step
first '{"schedule": "step", "nesterov": true, "weight_decay": 0.001}'
anywhere --optimizer adamw --lr 0.01 --schedule cosine --warmup 3
first '{"schedule": "cosine", "warmup": 3}'
anywhere --optimizer adam --schedule step
anywhere --lr 0.3 --momentum 0.5 --schedule one-cycle --start-factor 0.1 --end-factor 0.01
# shellcheck disable=SC2086
for rise in '0.3 of the run' 4; do
    runs 0 train $small --steps 5 --schedule one-cycle $([ "$rise" = 4 ] && echo --warmup 4)
    grep -q ", schedule one-cycle, warmup $rise, " "$work/err" || wrong "$called: its heading does not say the rise"
done
# These have no length, and go on after a break.
same --lr 0.3 --schedule exponential --gamma 0.5 --period 4
first '{"schedule": "exponential", "gamma": 0.5, "period": 4}'
same --lr 0.3 --schedule warm-restarts --period 3 --period-factor 2 --end-factor 0.1
first '{"schedule": "warm-restarts", "period": 3, "period_factor": 2, "end_factor": 0.1}'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --schedule warm-restarts --period 4
one_line '--resume: .*period was 3 and is 4 now'

# What cannot be known before the steps are: a rise as long as one-cycle's run is wrong, and one that others do not get out of is told.
# shellcheck disable=SC2086
runs 1 train $small --schedule one-cycle --warmup 10
one_line '--warmup: the rise of one-cycle, 10 steps, must be shorter than the run, which has 10$'
rise='note: --warmup 20 takes all 10 steps of the run, whose learning rate rises to 0.05 of 0.1'
# shellcheck disable=SC2086
runs 0 train $small --lr 0.1 --schedule cosine --warmup 20
grep -qx "$rise" "$work/err" || wrong "$called: a run that is all warm-up is not told"
# shellcheck disable=SC2086
runs 0 train $small --lr 0.1 --schedule cosine --warmup 9
grep -q 'note: --warmup' "$work/err" && wrong "$called: a warm-up that ends is told as one that does not"

# A rate that is gone long before the end is told before the first step, and is why the network still guesses. It is not gone where
# the falls are an epoch apart, or where the last quarter begins before.
fall='by --gamma 0.08 after every step; --period 5 makes that once an epoch'
# shellcheck disable=SC2086
runs 0 train $small --lr 1e-9 --schedule exponential --gamma 0.08
grep -qx "note: the learning rate falls below a thousandth of --lr after 3 of 10 steps, $fall" "$work/err" || wrong "$called: no note of its fall"
grep -q "guessing among 10 classes: the learning rate is down to 3.28e-15, $fall\$" "$work/err" || wrong "$called: another reason for guessing"
for kept_up in '0.1 --period 5' 0.5; do
    # shellcheck disable=SC2086
    runs 0 train $small --lr 1e-9 --schedule exponential --gamma $kept_up
    grep -q 'the learning rate' "$work/err" && wrong "$called: a rate that is kept up is told to be gone"
done
# shellcheck disable=SC2086
runs 0 train $small --epochs 9 --lr 1e-9 --schedule exponential --gamma 0.01 --period 6
grep -q 'after 12 of 45 steps, by --gamma 0.01 after every 6 steps; a longer --period or a --gamma nearer to 1 keeps it up$' "$work/err" ||
    wrong "$called: no note of its fall"

# A schedule that does nothing in this run, or not all, is told; so is a rate above --lr. What does as it should is not.
told() { # NOTE OPTIONS...: the notes of the rate, or none
    wanted=$1
    shift
    # shellcheck disable=SC2086
    runs 0 train $small --limit-test 32 --lr 0.1 --schedule "$@"
    grep -E '^note: .*(learning rate|--period)' "$work/err" | grep -v 'guessing' >"$work/said"
    printf '%b' "$wanted" | cmp -s - "$work/said" || wrong "$called: not its notes of the rate: $(cat "$work/said")"
}
flat='the learning rate is 0.1 in all 10 steps of the run, as with constant'
told "note: with --schedule warm-restarts $flat, by --period 1000000\\n" warm-restarts --period 1000000
told "note: with --schedule warm-restarts $flat, by --period 1\\n" warm-restarts --period 1
told "note: with --schedule exponential $flat, by --period 10\\n" exponential --gamma 0.5 --period 10
told "note: with --schedule exponential $flat\\n" exponential --gamma 1
told "note: with --schedule cosine $flat\\n" cosine --end-factor 1
told 'note: --period 20 is longer than the run, whose learning rate falls to 0.0578 of 0.1 in its 10 steps and never restarts\n' \
    warm-restarts --period 20
told 'note: --start-factor takes the learning rate to 0.2, above the 0.1 of --lr\n' one-cycle --start-factor 2
told 'note: --end-factor takes the learning rate to 0.5, above the 0.1 of --lr\n' one-cycle --end-factor 5
told 'note: --end-factor takes the learning rate to 0.2, above the 0.1 of --lr\n' cosine --end-factor 2
told 'note: --start-factor takes the learning rate to 0.2, above the 0.1 of --lr\n' linear --start-factor 2
told 'note: --gamma takes the learning rate to 0.4, above the 0.1 of --lr\n' exponential --gamma 2 --period 4
told '' warm-restarts --period 10
told '' warm-restarts --period 1 --period-factor 2
told '' exponential --gamma 0.5 --period 9
told "note: with --schedule exponential the learning rate is 0.1 in all 6 steps after the warm-up, as with constant, by --period 6\\n" \
    exponential --gamma 0.5 --period 6 --warmup 4 --after-warmup
told 'note: --period 12 is longer than the run after the warm-up, whose learning rate falls to 0.0629 of 0.1 in its 6 steps and never restarts\n' \
    warm-restarts --period 12 --warmup 4 --after-warmup
told '' linear --start-factor 0.1 --end-factor 1
told '' one-cycle
told '' step
told '' cosine --end-factor 0.1

# Other settings than the checkpoint's are refused by name.
same --lr 0.3 --momentum 0.9 --last-batch share
first '{"last_batch": "share"}'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9
one_line '--resume: .*full_batch was 64 and is not set now'
# shellcheck disable=SC2086
runs 0 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9 --allow-changed last-batch

# What is left out is as if it were not there: 300 images in file order are four batches of 64 and 44 images more.
alike() { # OPTIONS OPTIONS: both end with the same weights
    # shellcheck disable=SC2086
    runs 0 train --limit-test 100 --batch 64 --shard 16 --quiet $1
    ended=$(tail -n 1 "$work/out")
    # shellcheck disable=SC2086
    runs 0 train --limit-test 100 --batch 64 --shard 16 --quiet $2
    [ "$(tail -n 1 "$work/out")" = "$ended" ] || wrong "$called: another fingerprint than with $1"
}
alike '--limit 300 --epochs 2 --lr 0.3 --no-shuffle --last-batch drop' '--limit 256 --epochs 2 --lr 0.3 --no-shuffle'
rm -rf "$work/kept"
# shellcheck disable=SC2086
runs 0 train $small $kept --lr 0.3 --last-batch drop --steps 6 --log "$work/run.jsonl"
grep -q ', batch 64 (a partial one is left out), ' "$work/err" || wrong "$called: its heading does not say it"
first '{"last_batch": "drop", "images": 300}'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3
one_line '--resume: .*drop_last was yes and is not set now; go on with what was, or say --allow-changed last-batch$'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --last-batch share
one_line '--resume: .*full_batch was not set and is 64 now.*drop_last was yes and is not set now; .* --allow-changed last-batch$'
# shellcheck disable=SC2086
runs 0 train $small $kept --quiet --resume --lr 0.3 --last-batch drop
broken=$(tail -n 1 "$work/out")
# shellcheck disable=SC2086
runs 0 train $small --quiet --lr 0.3 --last-batch drop
[ "$(tail -n 1 "$work/out")" = "$broken" ] || wrong "$called: another fingerprint than after a break"
# shellcheck disable=SC2086
runs 0 train $small $kept --quiet --resume --lr 0.3 --last-batch share --allow-changed last-batch
runs 1 train --limit 40 --batch 64 --last-batch drop --quiet
one_line 'data: 40 images fill no batch of 64, and --last-batch drop leaves partial ones out$'

# A line that goes on where the warm-up ends is one line from the start: a rise of 1/8 of --lr with each of 16 steps.
line="--limit 256 --epochs 4 --lr 0.0625 --schedule linear"
alike "$line --warmup 8 --after-warmup --start-factor 1.125 --end-factor 2.125" "$line --start-factor 0.125 --end-factor 2.125"
anywhere --lr 0.3 --schedule cosine --warmup 4 --after-warmup
first '{"schedule": "cosine", "warmup": 4, "after_warmup": true}'
same --lr 0.3 --schedule exponential --gamma 0.5 --period 3 --warmup 4 --after-warmup
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --schedule exponential --gamma 0.5 --period 3 --warmup 4
one_line '--resume: .*after_warmup was yes and is not set now; .* --allow-changed after-warmup$'
# shellcheck disable=SC2086
runs 0 train $small --steps 5 --schedule cosine --warmup 4 --after-warmup
grep -q ', schedule cosine after warmup 4, ' "$work/err" || wrong "$called: its heading does not say it"
# shellcheck disable=SC2086
runs 1 train $small --quiet --steps 4 --schedule cosine --warmup 4 --after-warmup
one_line '--warmup: the rise before cosine, 4 steps, must be shorter than the run, which has 4$'
runs 2 train --schedule cosine --after-warmup
one_line '--after-warmup: needs --warmup'
runs 2 train --warmup 4 --after-warmup
one_line '--after-warmup: needs --schedule step, cosine, linear, exponential or warm-restarts'
runs 2 train --schedule one-cycle --warmup 4 --after-warmup
one_line '--after-warmup: needs --schedule step, cosine, linear, exponential or warm-restarts'

same --lr 0.3 --momentum 0.9 --clip-norm 0.3
first '{"clip_norm": 0.3}'
[ "$(grep -c '"grad_norm":[0-9]' "$work/run.jsonl")" = 10 ] || wrong "no gradient's norm with each step"
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9
one_line '--resume: .*clip_norm was 0.3 and is not set now'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9 --clip-norm 0.3 --label-smoothing 0.5
one_line '--resume: .*label_smoothing was 0 and is 0.5 now'

# What trains, and how, is a part of that; on any devices and after a break.
same --lr 0.3 --momentum 0.9 --weight-decay 0.01 --freeze 'W1,b1' --no-decay
first '{"freeze": "W1,b1", "no_decay": true}'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9 --weight-decay 0.01 --no-decay
one_line '--resume: .*frozen was W1, b1 and is not set now'
# shellcheck disable=SC2086
runs 1 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9 --weight-decay 0.01 --freeze W1,b1
one_line '--resume: .*groups was vectors of \*: lr 1, weight_decay 0 and is not set now'
# shellcheck disable=SC2086
runs 0 train $small $kept --quiet --resume --lr 0.3 --momentum 0.9 --weight-decay 0.01 --allow-changed freeze,no-decay
# shellcheck disable=SC2086
runs 1 train $small --quiet --freeze 'W1,layer1.*'
one_line '--freeze: no parameter is called "layer1.\*"; the first one is "W1", and \* stands for any part of a name'

# Weights that do not change get no better: epoch 1 is the best, and two more come.
rm -rf "$work/kept"
# shellcheck disable=SC2086
runs 0 train $small $kept --epochs 9 --lr 0 --patience 2 --log "$work/run.jsonl"
cp "$work/out" "$work/ended"
grep -q '^note: no test accuracy above that of epoch 1, .* in 2 epochs: the run ends$' "$work/err" || wrong "$called: no note of the end"
[ "$(grep -c '^{"epoch":' "$work/run.jsonl")" = 3 ] || wrong "$called: not three epochs"
# It is complete; a longer patience goes on from it, and so does a run that was broken off before its end.
# shellcheck disable=SC2086
runs 0 train $small $kept --epochs 9 --lr 0 --patience 2 --resume --quiet
cmp -s "$work/out" "$work/ended" || wrong "$called: other last lines than those of the complete run"
# shellcheck disable=SC2086
runs 0 train $small $kept --epochs 9 --lr 0 --patience 4 --resume --log "$work/run.jsonl"
[ "$(grep -c '^{"epoch":' "$work/run.jsonl")" = 5 ] || wrong "$called: not five epochs"
rm -rf "$work/kept"
# shellcheck disable=SC2086
runs 0 train $small $kept --epochs 9 --lr 0 --patience 3 --steps 8 --quiet
# shellcheck disable=SC2086
runs 0 train $small $kept --epochs 9 --lr 0 --patience 3 --resume
grep -q 'that of epoch 1, .* in 3 epochs' "$work/err" || wrong "$called: another end after a break"
ends
