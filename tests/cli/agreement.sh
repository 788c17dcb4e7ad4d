#!/bin/sh
# Weights and models in other programs: the same logits from PyTorch, both ways, and from onnxruntime. pip installs them into build/peers
# where PYTHON has them not. agreement.sh PROGRAM torch|onnxruntime TEST_ONNX [PYTHON]
. "$(dirname -- "$0")/common.sh"
root=$(readlink -f "$here/../..")
peer=$2 test_onnx=$3 given=${4-}
"$program" --version | grep -q '^weights files: not built in' && { echo "this build has no weights files"; exit 77; }
python=$(python3 "$root/bench/peers/venvs.py" "$peer" ${given:+"$given"}) ||
    { echo "no $peer; cmake -DLOCKSTEP_AGREEMENT_$(echo "$peer" | tr a-z A-Z)=PATH names a Python that has it"; exit 77; }
python3 "$here/make_data.py" "$work/data" 400 200 || exit 1

if [ "$peer" = torch ]; then
    set -- "$root/bench/agreement/predict.py"
else
    "$program" --version | grep -q '^ONNX files: not built in' && { echo "this build has no ONNX files"; exit 77; }
    mkdir "$work/more"
    "$test_onnx" "$work/more" || exit 1
    set -- "$root/bench/agreement/models.py" --more "$work/more"
fi
"$python" "$@" --lockstep "$program" --data "$work/data" || exit 1
