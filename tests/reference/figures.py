"""What the generators of figures share: how they are recorded, and checked against ways to compute them anew."""
import json
import os
import sys


def off(a, b):
    """Of the largest of the list."""
    return max(abs(p - q) for p, q in zip(a, b, strict=True)) / max(abs(q) for q in b)


def check(path, noun, cases, description, ways, within):
    """Whether no figure of the file is off by more than that share of the largest of its list, by any of the ways {name: way(case)}."""
    with open(path) as f:
        recorded = json.load(f)[noun]
    worst = 0
    for way in ways.values():
        for case, figures in zip(cases, recorded, strict=True):
            assert all(figures[key] == value for key, value in description(case).items()), figures["name"]
            worst = max([worst] + [off(values, figures[key]) for key, values in way(case).items()])
    print(f"{len(recorded)} {noun} by {' and '.join(ways)}: off by {worst:.1e}")
    return worst < within


def main(noun, cases, description, ways, within=1e-12):
    """Writes `noun`.json beside this file, or the file of the command line: a line a case, by the first of the ways; or checks it."""
    names = [a for a in sys.argv[1:] if a != "--check"]
    path = names[0] if names else os.path.join(os.path.dirname(os.path.abspath(__file__)), noun + ".json")
    if "--check" in sys.argv:
        raise SystemExit(0 if check(path, noun, cases, description, ways, within) else 1)
    first = next(iter(ways.values()))
    with open(path, "w") as f:
        lines = [json.dumps(description(case) | first(case)) for case in cases]
        f.write(f'{{"{noun}": [\n' + ",\n".join(lines) + "\n]}\n")
