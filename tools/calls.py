#!/usr/bin/env python3
"""Counts the places that a reader passes who follows a function by its calls, as deep as they go.

usage: tools/calls.py FUNCTION FOLDER...      (tools/calls.py ls_trainer_step src/train src/eager src/model src/exec)

A place is where a function names another one, to call it or to hand it on as a callback. Only functions in the .c files of
the folders are followed; calls of others (memory, messages, kernels) end there. Prints how many places go to another file,
and from which file to which. The text is read, not compiled: calls by pointer count where the function is named.
"""
import collections, pathlib, re, sys

if len(sys.argv) < 3:
    sys.exit(__doc__)
bodies = {}  # (file, function): what stands between its braces
for folder in sys.argv[2:]:
    for path in sorted(pathlib.Path(folder).rglob("*.c")):
        text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.S)
        for name, body in re.findall(r"^[^\s#{}].*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.M | re.S):
            bodies[str(path), name] = body
public = {name: (path, name) for path, name in bodies if name.startswith("ls_")}
if sys.argv[1] not in public:
    sys.exit(f"{sys.argv[1]} is no public function of these folders")
met, left, places = set(), [public[sys.argv[1]]], collections.Counter()
while left:
    here = left.pop()
    if here in met:
        continue
    met.add(here)
    for name in re.findall(r"(?<![\w.>])[a-z]\w*", bodies[here]):
        there = (here[0], name) if (here[0], name) in bodies else public.get(name)
        if there and there != here:
            places[here[0], there[0]] += 1
            left.append(there)
across = {way: n for way, n in sorted(places.items()) if way[0] != way[1]}
for (here, there), n in across.items():
    print(f"{n:4} {here} -> {there}")
print(f"{sys.argv[1]}: {len(met)} functions in {len({file for file, _ in met})} files; {sum(places.values())} places, "
      f"{sum(across.values())} of them to another file")
