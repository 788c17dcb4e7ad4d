"""The C headers as Python sees them: functions, structs and enums, each with what is said of it."""
import re
from dataclasses import dataclass, field

NAMES = ("lockstep", "lockstep_nn", "lockstep_train", "lockstep_data", "lockstep_weights", "lockstep_checkpoint", "lockstep_cluster",
         "lockstep_profile", "lockstep_lifetime")
_TOKENS = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<mark>[{};\n])|(?P<text>[^/{};\n]+|/)", re.S)


@dataclass
class Variable:
    """An argument or a field: `type` is C's without the name, "const double *"."""
    type: str
    name: str
    said: str = ""


@dataclass
class Function:
    name: str
    result: str
    arguments: list
    said: str
    header: str


@dataclass
class Struct:
    name: str
    fields: list
    said: str


@dataclass
class Headers:
    text: str = ""  # for cffi: without comments and what the preprocessor reads
    functions: dict = field(default_factory=dict)
    structs: dict = field(default_factory=dict)
    enums: dict = field(default_factory=dict)  # name -> enumerators


def _bare(text):
    """Without what C++ alone reads, and without directives."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def _words(comment):
    lines = [line.strip().lstrip("*").strip() for line in comment[2:-2].splitlines()]
    said = "\n".join(lines).strip()
    return "" if said.startswith("----") else said


def _statements(text, groups=True):
    """(statement, what is said of it): the comment in front, in groups also of those that follow without an empty line, and the one
    behind it."""
    found, statement, lead, depth, ended, empty, first, fresh = [], "", "", 0, False, True, True, False
    for token in _TOKENS.finditer(text):
        piece = token.group()
        if token.lastgroup == "comment" and depth == 0 and not statement.strip():
            if ended:  # behind the statement, on its line; of a group's further ones it is all that is theirs
                found[-1][1] = "\n\n".join(filter(None, (_words(piece), found[-1][1] if first else "")))
            else:
                lead = _words(piece)
                empty, fresh = False, True
        elif token.lastgroup == "comment":
            statement += piece
        elif piece == "\n":
            if depth == 0 and not statement.strip():
                if empty:
                    lead = ""
                empty = True
            ended = False
            statement += piece
        else:
            depth += (piece == "{") - (piece == "}")
            if piece.strip():
                empty = False
            if piece == ";" and depth == 0:
                found.append([statement.strip(), lead])
                first, fresh = fresh, False
                statement, ended = "", True
                lead = lead if groups else ""
            else:
                statement += piece
    return found


def _uncommented(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def _one_line(text):
    return " ".join(_uncommented(text).split())


def _variable(text, said=""):
    """One argument or field; None of a function's pointer."""
    if text.strip() == "...":
        return Variable("...", "")
    match = re.fullmatch(r"(.*?[ *])(\w+)((?:\[[^\]]*\])*)", text.strip())
    if not match or "(" in text:
        return None
    return Variable(match.group(1).strip() + match.group(3), match.group(2), said)


def _variables(text):
    """Those of a struct: `double a, b;` are two."""
    for statement, said in _statements(text, groups=False):
        first, *others = re.split(r",(?![^(]*\))", _one_line(statement))
        one = _variable(first, said)
        if one is None:
            continue
        yield one
        base = re.match(r"[\w ]+", one.type).group().strip()
        for other in others:
            yield _variable(f"{base} {other}", said)


def _function(statement, said, header):
    match = re.match(r"(.*?[ *])(ls_\w+)\((.*)\)$", _one_line(statement))
    if not match or match.group(1).startswith("typedef"):
        return None
    listed = [] if match.group(3) == "void" else re.split(r",(?![^(]*\))", match.group(3))
    arguments = []
    for text in listed:
        pointer = re.match(r"\s*(.*)\(\*(\w+)\)(\(.*\))$", text)  # a function's
        arguments.append(Variable(f"{pointer.group(1)}(*){pointer.group(3)}", pointer.group(2)) if pointer else _variable(text))
    return Function(match.group(2), match.group(1).strip(), arguments, said, header)


def read(folder):
    """All headers of a folder that the package is made of."""
    headers = Headers()
    for name in NAMES:
        text = _bare((folder / f"{name}.h").read_text())
        text = re.sub(r'extern "C" \{|\A\s*\}', "", text)
        headers.text += _uncommented(text) + "\n"
        for statement, said in _statements(text):
            function = _function(statement, said, name)
            body = re.match(r"typedef (struct|enum) (ls_\w+)\s*\{(.*)\}", statement, re.S)
            if function:
                headers.functions[function.name] = function
            elif body and body.group(1) == "struct":
                headers.structs[body.group(2)] = Struct(body.group(2), list(_variables(body.group(3))), said)
            elif body:
                headers.enums[body.group(2)] = re.findall(r"\bLS_\w+", re.sub(r"=[^,]*", "", _uncommented(body.group(3))))
    return headers
