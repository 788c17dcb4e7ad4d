#!/bin/sh
# The layout of the sources by .clang-format, no line of theirs above 120 columns, and words that are misspelt. tools/layout.sh [--mend]
set -eu
cd "$(dirname -- "$0")/.."
status=0

# Another version has another opinion of the same file.
format=
for name in clang-format-14 clang-format; do
    if [ -z "$format" ] && "$name" --version 2>/dev/null | grep -q 'version 14\.'; then
        format=$name
    fi
done
sources() {
    git ls-files -- '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' ':!tools/cmocka'
}
if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "not run: this is no clone, whose files git could list"
    exit 77
fi
if [ -z "$format" ]; then
    echo "not run: layout: there is no clang-format of version 14"
elif [ "${1-}" = --mend ]; then
    sources | xargs "$format" -i
else
    sources | xargs "$format" --dry-run -Werror || status=1
fi
sources | xargs awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; wide = 1 } END { exit wide }' || status=1

# Names of ours and of others: dout is the slope of out, Toom a mathematician, Paeth a filter of PNG.
known=dout,toom,paeth,nd,fo,childs,nneeded
if ! command -v codespell >/dev/null 2>&1; then
    echo "not run: spelling: there is no codespell"
else
    git ls-files -- ':!*.json' ':!tests/fuzz' ':!*.png' ':!*.svg' ':!LICENSE' | xargs codespell -L "$known" || status=1
fi
exit $status
