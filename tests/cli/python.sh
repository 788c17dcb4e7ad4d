#!/bin/sh
# The Python package: built by pip around this build's library, and tested. pip installs what that needs into build/peers where PYTHON has
# it not. python.sh PROGRAM [PYTHON]
. "$(dirname -- "$0")/common.sh"
. "$here/python_package.sh"
package_python package "${2-}" \
    "no cffi, scikit-build-core, numpy or pytest; cmake -DLOCKSTEP_PACKAGE_PYTHON=PATH names a Python that has them"
"$python" -m pytest -q -rs -p no:cacheprovider --tb=short --durations=5 "$root/python/tests" >"$work/out" 2>&1 || wrong "pytest"
sed -nE 's|^SKIPPED \[[0-9]+\] .*/(test_[a-z]+)\.py:([0-9]+): |not run: \1:\2: |p' "$work/out"
tail -n 1 "$work/out"
ends
