"""Python source of the functions and layers that the headers declare."""
import keyword
import re
from dataclasses import dataclass, replace

NUMBERS = {"int": ("int", "0"), "int64_t": ("int", "0"), "int32_t": ("int", "0"), "uint64_t": ("int", "0"), "double": ("float", "0.0"),
           "float": ("float", "0.0")}
MAY_LACK = {"bias", "bias_ih", "bias_hh", "lengths"}  # tensors; and the weight of what normalises
# Fields of ls_loss that a loss has.
OF_LOSS = {"ls_huber": {"delta"}, "ls_bce": {"class_weights", "positive_weights"},
           "ls_cross_entropy_with": {"smoothing", "has_ignore", "ignore", "class_weights"}}
# Fields of ls_norm that are BatchNorm's alone, and the one that it has not.
OF_BATCH_NORM = {"momentum", "frozen", "by_shard"}
# What other functions have too: X gives way to X_with, which takes options.
INSTEAD = {"ls_cross_entropy_smooth"}
IN_ORDER = {"ls_pool"}  # options that are given without their names too, and whose kernel must be
NO_LAYERS = {"ls_sum", "ls_mean"}  # their result is no row for each image
SPELT = {"relu": "ReLU", "leaky_relu": "LeakyReLU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SiLU", "lstm": "LSTM", "gru": "GRU",
         "rms_norm": "RMSNorm"}


@dataclass
class Parameter:
    """Of a Python function: how it is declared, and the expression that C gets."""
    name: str
    declared: str
    given: str
    said: str = ""


def _replaced(read):
    return {name for name in read.functions if name + "_with" in read.functions} | INSTEAD


def _word(enumerator):
    return re.sub(r"^LS_|_SCHEDULE$", "", enumerator).lower()


def _option(read, field):
    """A field of options as a keyword; None of what Python does not give. Where its comment says what 0 means, that is the default."""
    if field.type in NUMBERS:
        kind, default = NUMBERS[field.type]
        usual = re.search(r"\b0: ([\d.e-]+)$", field.said)
        if usual:
            return Parameter(field.name, f"{field.name}: {kind} = {usual.group(1)}", field.name, field.said[:usual.start()].rstrip("; "))
        return Parameter(field.name, f"{field.name}: {kind} = {default}", field.name, field.said)
    if field.type == "bool":
        if field.name.startswith("no_"):
            name = field.name[3:]
            return Parameter(name, f"{name}: bool = True", f"not {name}", field.said and f"False: {field.said.replace('; not for BatchNorm', '')}")
        return Parameter(field.name, f"{field.name}: bool = False", field.name, field.said)
    if field.type in read.enums:
        return Parameter(field.name, f"{field.name}: str = {_word(read.enums[field.type][0])!r}", field.name, field.said)
    if field.type == "const double *":
        return Parameter(field.name, f"{field.name}: Optional[Sequence[float]] = None", field.name, field.said)
    if field.type == "ls_tensor *":
        return Parameter(field.name, f"{field.name}: Optional[TensorLike] = None", field.name, field.said)
    return None


def _options(read, function, struct, taken, tensors):
    """(parameters, the expression of the struct)."""
    parameters, fields = [], []
    only = OF_LOSS.get(function.name) if struct.name == "ls_loss" else None
    for field in struct.fields:
        told = field.name.startswith("no_") and field.name[3:] in taken  # as an argument: no_bias beside bias
        if struct.name == "ls_norm" and (field.name in OF_BATCH_NORM) != ("batch_norm" in function.name) and field.name != "eps":
            continue
        if told or only is not None and field.name not in only or field.type == "ls_tensor *" and not tensors:
            continue
        if field.name.startswith("has_"):  # with its number behind it
            fields.append(f"{field.name}={field.name[4:]} is not None")
            continue
        if f"has_{field.name}" in (one.name for one in struct.fields):
            said = next(one.said for one in struct.fields if one.name == f"has_{field.name}")
            made = Parameter(field.name, f"{field.name}: Optional[int] = None", f"{field.name} or 0", said)
        else:
            made = _option(read, field)
        if made:
            parameters.append(made)
            fields.append(f"{field.name}={made.given}")
    return parameters, f'_options("{struct.name} *", {", ".join(fields)})'


def _argument(read, function, argument, last):
    """One of C's arguments. `last`: nothing that must be given comes after it."""
    name, kind = argument.name + "_" * keyword.iskeyword(argument.name), argument.type
    if kind == "ls_tensor *":
        may_lack = name in MAY_LACK or name == "weight" and function.name.endswith("norm")
        hint = "Optional[TensorLike]" if may_lack else "TensorLike"
        default = " = None" if may_lack and last else ""
        return Parameter(name, f"{name}: {hint}{default}", f'_tensor({name}, "{name}"{", True" if may_lack else ""})')
    if kind == "ls_tensor *const[]":
        return Parameter(name, f"{name}: Sequence[TensorLike]", f"_tensors({name}), len({name})")
    if kind in NUMBERS:
        return Parameter(name, f"{name}: {NUMBERS[kind][0]}", name)
    if kind in read.enums:
        return Parameter(name, f"{name}: str = {_word(read.enums[kind][0])!r}", f'_enum("{kind}", {name})')
    if kind.startswith("const int["):
        return Parameter(name, f"{name}: Sequence[int]", f"_numbers({name}, {kind[10:-1]})")
    return None


def _signature(read, function, arguments, tensors):
    """(positional, keywords, expressions for C); None where an argument is of a kind that Python does not give."""
    positional, keywords, given, count_next = [], [], [], False
    named = {argument.name for argument in arguments}
    for i, argument in enumerate(arguments):
        struct = read.structs.get(argument.type.replace("const ", "").rstrip(" *"))
        if count_next:
            count_next = False
        elif struct:
            keywords, expression = _options(read, function, struct, named, tensors)
            given.append(expression)
            if struct.name in IN_ORDER:
                positional += [replace(one, declared=one.declared.replace("kernel: int = 0", "kernel: int")) for one in keywords]
                keywords = []
        else:
            last = all(one.name in MAY_LACK or "options" in one.name for one in arguments[i + 1:])
            made = _argument(read, function, argument, last)
            if made is None:
                return None
            positional.append(made)
            given.append(made.given)
            count_next = argument.type == "ls_tensor *const[]"
    return positional, keywords, given


def _declared(positional, keywords, first=""):
    parts = [first] * bool(first) + [one.declared for one in positional]
    return ", ".join(parts + ["*"] * bool(keywords) + [one.declared for one in keywords])


def _said(read, function):
    """What the header says of it; of X_with what it says of X too, whose name Python takes."""
    same, without = "The same with options (may be NULL): ", read.functions.get(function.name.removesuffix("_with"))
    if without is None or not function.said.startswith(same):
        return function.said or (without.said if without else "")
    return without.said + "\nOptions are " + function.said[len(same):]


def _in_python(said):
    """A header's words as a Python program's: without what is C's alone."""
    said = re.sub(r"(; )?`?options`?\s+(\(may\s+be\s+NULL\)|may\s+be\s+NULL)[.:]?\s*", lambda match: "." * bool(match.group(1)) + " ", said)
    said = re.sub(r"\bls_options\.shard\b", "Session's shard", said)
    said = re.sub(r"\bls_nn_(\w+?)(?:_with)?\b", lambda match: "nn." + _class_name(match.group(1)), said)
    said = re.sub(r"\bls_(\w+?)(?:_with)?\b", r"\1", said)
    said = re.sub(r"\bLS_([A-Z_]+)\b", r"\1", said).replace("NULL", "None")
    return re.sub("  +", " ", re.sub(r"(?<!\.)\. ?\.(?!\.)", ".", said)).strip()


def _doc(said, keywords, c_name, indent, header):
    lines = [_in_python(said)] if said else []
    told = [f"{one.name}: {_in_python(re.sub('^(ls_[a-z0-9_]+(, likewise)?|BatchNorm.s): ', '', ' '.join(one.said.split())))}"
            for one in keywords if one.said]
    if told:
        lines.append("\n".join(told))
    lines.append(f"{c_name} of {header}.h.")
    text = "\n\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return ('"""' + text + '\n"""').replace("\n", "\n" + indent).replace(indent + "\n", "\n")


HEAD = '''"""{what} Made by python/generate from the C headers, whose words these are."""
{future}from typing import Optional, Sequence

from {above}_arguments import enum as _enum, numbers as _numbers, options as _options, tensor as _tensor, tensors as _tensors
from {above}_lockstep import lib as _lib
from {above}tensor import Tensor, TensorLike, made as _made
'''


def functional(read):
    """Of each operation: what takes tensors and gives one."""
    text = [HEAD.format(what="Operations and losses on tensors.", above=".", future="from __future__ import annotations\n\n")]
    names, replaced = [], _replaced(read)
    for function in read.functions.values():
        first = function.arguments[0].type if function.arguments else ""
        if function.header != "lockstep_nn" or function.result != "ls_tensor *" or not first.startswith("ls_tensor *") or \
                function.name in replaced:
            continue
        signature = _signature(read, function, function.arguments, True)
        if signature is None:
            continue
        positional, keywords, given = signature
        name = function.name[3:].removesuffix("_with")
        names.append(name)
        text.append(f"""
def {name}({_declared(positional, keywords)}) -> Tensor:
    {_doc(_said(read, function), keywords, function.name, "    ", function.header)}
    return _made(_lib.{function.name}, {", ".join(given)})
""")
    text.append(f"\n__all__ = {sorted(names)!r}\n")
    return "\n".join(text)


def _class_name(name):
    return SPELT.get(name) or "".join(part[0].upper() + part[1:] for part in name.split("_"))


def _layer_class(name, base, said, declared, stored, said_of):
    # What repr shows: arguments as they were given.
    return f"""
class {name}({base}):
    {said}

    def __init__({declared}) -> None:
        super().__init__({said_of})
        self._recipe = lambda: {stored}
"""


def layers(read):
    """Of each ls_nn_NAME a class, and of each function of one tensor."""
    text = [HEAD.format(what="Layers.", above="..", future="") + "from ..module import FunctionLayer as _FunctionLayer, Layer as _Layer\n"]
    names, replaced = [], _replaced(read)
    for function in read.functions.values():
        if not function.name.startswith("ls_nn_") or function.name in replaced:
            continue
        signature = _signature(read, function, function.arguments[1:], False)
        if signature is None:
            continue
        positional, keywords, given = signature
        name = _class_name(function.name[6:].removesuffix("_with"))
        names.append(name)
        said = _doc(_said(read, function), keywords, function.name, "    ", function.header)
        told = ", ".join(f"{one.name}={one.name}" if " = " in one.declared else one.name for one in positional + keywords)
        text.append(_layer_class(name, "_Layer", said, _declared(positional, keywords, "self"),
                                 f"(_lib.{function.name}, {', '.join(given)})", told))
    for function in read.functions.values():
        kinds = [argument.type for argument in function.arguments]
        name = _class_name(function.name[3:])
        if function.header != "lockstep_nn" or function.result != "ls_tensor *" or function.name in NO_LAYERS or name in names or \
                kinds not in (["ls_tensor *"], ["ls_tensor *", "double"]):
            continue
        names.append(name)
        argument = function.arguments[1].name if len(kinds) == 2 else ""
        text.append(_layer_class(name, "_FunctionLayer", _doc(function.said, [], function.name, "    ", function.header),
                                 f"self, {argument}: float" if argument else "self",
                                 f'("{function.name}", {argument})' if argument else f'("{function.name}",)', argument))
    text.append(f"\n__all__ = {sorted(names)!r}\n")
    return "\n".join(text)


def status(read):
    """The names of what may go wrong."""
    names = [name[3:] for name in read.enums["ls_status"]]
    return ('"""What may go wrong. Made by python/generate from lockstep.h."""\nimport enum\n\n\nclass Status(str, enum.Enum):\n'
            '    """What went wrong: ls_status of lockstep.h. Each equals its name: Status.NO_DEVICE == "NO_DEVICE"."""\n\n'
            + "".join(f'    {name} = "{name}"\n' for name in names) + "\n    def __str__(self):\n        return self.value\n")
