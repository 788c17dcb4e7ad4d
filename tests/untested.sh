#!/bin/sh
# Fails where a public function is called by no test, or a test leaves in silence. Prints each as NAME, or as FILE:LINE.
set -eu
cd "$(dirname -- "$0")/.."
# The tests' code, without comments and strings: what is only spoken of is not called.
code() {
    find tests -name '*.[ch]' -exec cat {} + | awk '
        {
            line = $0
            code = ""
            while (line != "") {
                if (within) {
                    if (!(end = index(line, "*/")))
                        break
                    line = substr(line, end + 2)
                    within = 0
                } else if (match(line, /"([^"\\]|\\.)*"|'\''([^'\''\\]|\\.)+'\''|\/\*|\/\//)) {
                    code = code substr(line, 1, RSTART - 1)
                    begun = substr(line, RSTART, RLENGTH)
                    line = begun == "//" ? "" : substr(line, RSTART + RLENGTH)
                    within = begun == "/*"
                } else {
                    code = code line
                    line = ""
                }
            }
            print code
        }'
}
called=$(code | sed 's/(/(\n/g' | grep -oE '(^|[^a-z0-9_])ls_[a-z0-9_]+\($' | grep -oE 'ls_[a-z0-9_]+' | sort -u)
untested=0
for name in $(sed -nE '/^typedef|^template/d; s/^[a-z].*[ *](ls_[a-z0-9_]+)\(.*/\1/p' $(ls include/*.h | grep -v _mpi) | sort -u); do
    echo "$called" | grep -qx "$name" || {
        echo "$name"
        untested=$((untested + 1))
    }
done
[ "$untested" = 0 ] || { echo "untested: $untested public functions without a test" && exit 1; }
# By not_run.h and common.sh they say what they do not run; ./check counts that.
if grep -nE 'skip\(\);|return 77;' tests/*.c | grep -v '^tests/not_run.c:' ||
    grep -nE 'exit 77|exit\(77|SystemExit\(77' tests/cli/* | grep -vE '^tests/cli/(common|setup).sh:'; then
    echo "untested: a test that is not run must say so" && exit 1
fi
echo "untested: every public function is called by a test"
