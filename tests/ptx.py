#!/usr/bin/env python3
"""ptx.py FOLDER: reads the PTX of the card's kernels, all *.ptx in FOLDER, where nvcc leaves them. Float arithmetic must be
IEEE's, every operation rounded by itself to the nearest: add, sub, mul, fma, div, rcp and sqrt say .rn. Nothing is
approximate or flushes denormals; no float minimum or maximum, which lose a NaN or a zero's sign; no float atomics, whose
order changes. Kernels of bfloat16 are left out. What the others have not reached yet is listed here, kernel by kernel; a
listed kernel that has nothing of the kind any more is a mistake, too.

Nothing fuses what PTX rounds by itself. Machine code says .FTZ and MUFU within exact divisions, rightly."""
import pathlib
import re
import sys

# file: kernels
LISTED = {
    "kernels/loss": {"cross_entropy", "softmax"},  # expf, logf of the toolkit
    "kernels/pointwise": {"each"},                 # tanhf, expf of the toolkit
}

ROUNDED = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"}
NEVER = {"min", "max", "ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "atom", "red"}
ORDER = ("ld", "st", "mov", "setp", "set", "selp", "slct", "neg", "abs", "copysign", "testp", "shfl", "ldu", "cvta")


def is_wrong(instruction):
    """Whether an instruction, such as fma.rn.f32, is none of IEEE's."""
    name, *parts = instruction.split(".")
    if not any(re.fullmatch(r"f(32|64)(x2)?", part) for part in parts) or name in ORDER:
        return False
    if {"approx", "ftz", "full", "sat"} & set(parts) or name in NEVER:
        return True
    if name == "cvt":  # to an integer by cutting off, to a float by rounding; a wider float has every number
        to, of = parts[-2:]
        return not (to == "f64" and of == "f32" or {"rn", "rzi", "rni", "rmi", "rpi"} & set(parts))
    return name not in ROUNDED or "rn" not in parts


def kernels(text):
    """Each entry's or function's name, as it is written and by itself, and its instructions."""
    begins = [(m.start(), m.group(1)) for m in re.finditer(r"^\s*(?:\.\w+ )*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(\w+)", text, re.M)]
    for i, (begin, name) in enumerate(begins):
        body = text[begin:begins[i + 1][0] if i + 1 < len(begins) else len(text)]
        short = re.search(r"_cu_[0-9a-f]{8}(\d+)(\w+)", name)
        plain = short.group(2)[:int(short.group(1))] if short else name
        yield name, plain, re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*(?:\.\w+)+)", body, re.M)


def audit(path):
    """The kernels of a file with something wrong, and of what; how many instructions were looked at."""
    wrong, seen = {}, 0
    for name, plain, instructions in kernels(path.read_text()):
        if "__nv_bfloat16" in name:
            continue
        seen += len(instructions)
        found = {i for i in instructions if is_wrong(i)}
        if found:
            wrong.setdefault(plain, set()).update(found)
    return wrong, seen


def main():
    folder = pathlib.Path(sys.argv[1])
    files = {path: str(path.relative_to(folder)).split(".")[0] for path in sorted(folder.rglob("*.ptx"))}
    mistakes, instructions = [], 0
    for path, file in files.items():
        wrong, seen = audit(path)
        instructions += seen
        for kernel, found in sorted(wrong.items()):
            if kernel not in LISTED.get(file, ()):
                mistakes.append(f"{file}: {kernel}: {', '.join(sorted(found))}")
        for kernel in sorted(LISTED.get(file, set()) - set(wrong)):
            mistakes.append(f"{file}: {kernel} is listed, and has nothing wrong any more")
    for name in sorted(set(LISTED) - set(files.values())):
        mistakes.append(f"{name}: listed, and not there")
    if instructions < 1000:
        mistakes.append(f"{sys.argv[1]}: {instructions} instructions of f32 kernels in {len(files)} files")
    print(f"{len(files)} files, {instructions} instructions of kernels in f32; listed: "
          + "; ".join(f"{file}: {', '.join(sorted(of))}" for file, of in sorted(LISTED.items())))
    print("\n".join(mistakes))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
