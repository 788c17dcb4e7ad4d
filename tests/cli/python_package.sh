# Sourced by the tests of the Python package behind common.sh. POSIX sh.

# package_python ENVIRONMENT PYTHON WHY: sets `python` to one that has what the environment of bench/peers/venvs.py names (pip installs it into
# build/peers where PYTHON, which may be empty, has it not; else the test is not run, for this reason), and PYTHONPATH to the package, which pip
# builds around this build's library.
package_python() {
    root=$(readlink -f "$here/../..")
    build=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P)
    needs 'weights files' fingerprints
    python=$(python3 "$root/bench/peers/venvs.py" "$1" ${2:+"$2"}) || none_run "$3"
    "$python" -m pip install --quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check --target "$work/site" \
        -C build-dir="$work/build" -C "cmake.define.LOCKSTEP_BUILT=$build" "$root" || exit 1
    PYTHONPATH=$work/site
}
