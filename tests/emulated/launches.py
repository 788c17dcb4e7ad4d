#!/usr/bin/env python3
"""launches.py IN.cu OUT.cpp: turns `kernel<<<grid, block, shared, stream>>>(arguments)` into a call of emulate_launch,
and `extern __shared__ T name[]` into a pointer to the block's shared memory."""
import re
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


def first_three(text):
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in parts[:3]]


WAITING = ("__syncthreads(", "__syncwarp(", "_sync(", "__pipeline_", "ls_block_sum(", "ls_lanes_sum(", "sum_of(")


def waits(text, kernel):
    """Whether a kernel's threads wait for each other, itself or in what it calls in its file."""
    body = text.index("{", text.index(f"void {kernel}("))
    inside = text[body:closing(text, body, "{", "}")]
    if any(f in inside for f in WAITING):
        return True
    called = set(re.findall(r"\b(\w+)(?:<[^;{}()]*>)?\(", inside))
    return any(waits_in(text, f) for f in called)


def waits_in(text, function):
    at = re.search(rf"\n(?:[\w:]+ )+{function}\([^;{{}}]*\)\s*{{", text)
    return bool(at) and any(f in text[at.end():closing(text, at.end() - 1, "{", "}")] for f in WAITING)


def turned(text):
    source = text
    text = re.sub(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];", r"\1 *const \2 = (\1 *)emulate_shared();", text)
    while "<<<" in text:
        at = text.index("<<<")
        before = len(text[:at].rstrip())
        name = kernel_before(text, before)
        end = text.index(">>>", at)
        opening = text.index("(", end)
        last = closing(text, opening, "(", ")")
        grid, block, shared = first_three(text[at + 3:end])
        together = str(waits(source, text[name:before].split("<")[0])).lower()
        text = (text[:name] + f"emulate_launch({grid}, {block}, {shared}, {together}, "
                + f"[&] {{ {text[name:before]}{text[opening:last + 1]}; }})"
                + text[last + 1:])
    return text


if __name__ == "__main__":
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as made:
        made.write(turned(source.read()))
