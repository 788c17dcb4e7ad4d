#!/usr/bin/env python3
"""launches.py IN.cu OUT.cpp: turns `kernel<<<grid, block, 0, stream>>>(arguments)` into a call of emulate_launch."""
import sys


def closing(text, at, opening, close):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == close)
        if depth == 0:
            return i
    raise SystemExit("launches.py: unbalanced " + opening)


def kernel_before(text, end):
    """Where the kernel's name, with its template arguments, begins."""
    at = end
    if text[at - 1] == ">":
        depth = 0
        while True:
            at -= 1
            depth += (text[at] == ">") - (text[at] == "<")
            if depth == 0:
                break
    while text[at - 1].isalnum() or text[at - 1] == "_":
        at -= 1
    return at


def first_two(text):
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return parts[:2]


def waits(text, kernel):
    """Whether a kernel's threads wait for each other, itself or in what it calls."""
    body = text.index("{", text.index(f"void {kernel}("))
    return any(f in text[body:closing(text, body, "{", "}")] for f in ("__syncthreads(", "ls_block_sum(", "sum_of("))


def turned(text):
    source = text
    while "<<<" in text:
        at = text.index("<<<")
        before = len(text[:at].rstrip())
        name = kernel_before(text, before)
        end = text.index(">>>", at)
        opening = text.index("(", end)
        last = closing(text, opening, "(", ")")
        grid, block = first_two(text[at + 3:end])
        together = str(waits(source, text[name:before].split("<")[0])).lower()
        text = (text[:name] + f"emulate_launch({grid.strip()}, {block.strip()}, {together}, "
                + f"[&] {{ {text[name:before]}{text[opening:last + 1]}; }})"
                + text[last + 1:])
    return text


if __name__ == "__main__":
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as made:
        made.write(turned(source.read()))
