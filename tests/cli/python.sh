#!/bin/sh
# The Python package: built by pip around this build's library, and tested. pip installs what that needs into build/peers where PYTHON has
# it not. python.sh PROGRAM [PYTHON]
. "$(dirname -- "$0")/common.sh"
root=$(readlink -f "$here/../..")
given=${2-}
needs 'weights files' fingerprints
python=$(python3 "$root/bench/peers/venvs.py" package ${given:+"$given"}) ||
    none_run "no cffi, scikit-build-core, numpy or pytest; cmake -DLOCKSTEP_PACKAGE_PYTHON=PATH names a Python that has them"
"$python" -m pip install --quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check --target "$work/site" \
    -C build-dir="$work/build" -C "cmake.define.LOCKSTEP_BUILT=$(dirname -- "$program")" "$root" || exit 1
PYTHONPATH=$work/site
"$python" -m pytest -q -rs -p no:cacheprovider --tb=short --durations=5 "$root/python/tests" >"$work/out" 2>&1 || wrong "pytest"
sed -nE 's|^SKIPPED \[[0-9]+\] .*/(test_[a-z]+)\.py:([0-9]+): |not run: \1:\2: |p' "$work/out"
tail -n 1 "$work/out"
ends
