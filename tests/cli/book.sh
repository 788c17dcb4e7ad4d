#!/bin/sh
# docs/book.md points at lines of the examples: each must hold the word that the page gives beside it.
. "$(dirname -- "$0")/common.sh"
python3 - "$here/../.." <<'PY' || wrong "docs/book.md"
import re, sys
root = sys.argv[1]
places = re.findall(r"`(\w+\.c):(\d+)` `([^`]+)`", open(root + "/docs/book.md", encoding="utf-8").read())
assert len(places) > 30, places
bad = 0
for file, line, word in places:
    lines = open(f"{root}/examples/{file}", encoding="utf-8").read().split("\n")
    if word not in lines[int(line) - 1]:
        bad += 1
        at = [n for n, text in enumerate(lines, 1) if word in text]
        print(f"{file}:{line} is {lines[int(line) - 1]!r}; {word} is at {at}")
sys.exit(bad > 0)
PY
ends
