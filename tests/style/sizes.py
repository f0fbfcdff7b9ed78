"""A function fits a screen (70 lines), a file a sitting (800). Functions of C++, Python and shell are measured from the
line their name stands on to the closing line."""

import ast
import bisect
import pathlib
import re

import tree

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
MEASURED = {".h", ".cpp", ".py", ".sh", ".cmake", ".md"}

# Comments, raw strings, strings and characters; a digit separator (1'000) is no character.
NOISE = re.compile(r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                   re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
SCOPE = re.compile(r"^\s*(?:inline\s+)?namespace\b|^\s*extern\s*$|\b(?:class|struct|union|enum)\s[^()=]*$")
ACCESS = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)?")
# Foo::Foo(...) : member   -- the brace after it initialises a member and is not the body
MEMBER = re.compile(r"\)[^;{}]*[^:]:(?!:)[^;]*[\w>]\s*$")
FUNCTION = re.compile(r"[)\]}]\s*(?:const|noexcept(?:\([^)]*\))?|override|final|mutable|try|&{1,2}|->\s*[\w:<>,*&\s]+|\s)*$")


def blank(text: str) -> str:
    """The text with comments, strings and directives blanked, every line break kept in its place."""
    def spaces(found: re.Match) -> str:
        return re.sub(r"[^\n]", " ", found.group())
    return DIRECTIVE.sub(spaces, NOISE.sub(spaces, text))


def closing(text: str, opening: int) -> int:
    """The place of the brace that closes the one at `opening`; the end of the text where there is none."""
    depth = 0
    for found in re.finditer(r"[{}]", text[opening:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return opening + found.start()
    return len(text) - 1


def cpp_functions(text: str):
    """Yields (first line, lines, head) of each function and of each lambda at namespace scope."""
    text = blank(text)
    breaks = [found.start() for found in re.finditer("\n", text)]
    position = start = 0
    while found := re.compile(r"[{};]").search(text, position):
        at = found.start()
        position = at + 1
        if found.group() != "{":
            start = position
            continue
        start += ACCESS.match(text[start:at]).end()
        head = text[start:at]
        if SCOPE.search(head) and not FUNCTION.search(head.rstrip()):
            start = position
        elif MEMBER.search(head.replace("::", "..")):
            position = closing(text, at) + 1
        elif "(" in head and FUNCTION.search(head):
            end = closing(text, at)
            first = bisect.bisect_left(breaks, start) + 1
            last = bisect.bisect_left(breaks, end) + 1
            yield first, last - first + 1, " ".join(head.split())
            position = start = end + 1
        else:  # an initialiser
            position = closing(text, at) + 1


def python_functions(text: str):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def shell_functions(text: str):
    for found in re.finditer(r"^(\w+)\(\) [{(]$.*?^[})]", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, found.group().count("\n") + 1, found.group(1)


def is_shell(path: pathlib.Path) -> bool:
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        return path.suffix == "" and file.read(20).startswith(b"#!/usr/bin/env bash")


def check(root: pathlib.Path = tree.ROOT) -> list[str]:
    problems = []
    for name in tree.files(root):
        path = root / name
        shell = is_shell(path)
        if name.suffix not in MEASURED and not shell:
            continue
        text = path.read_text()
        if (lines := text.count("\n")) > FILE_LINES_MAX:
            problems.append(f"{name}: {lines} lines, at most {FILE_LINES_MAX}")
        reader = (cpp_functions if name.suffix in tree.CPP else python_functions if name.suffix == ".py"
                  else shell_functions if shell else None)
        for line, length, head in reader(text) if reader else ():
            if length > FUNCTION_LINES_MAX:
                problems.append(f"{name}:{line}: {length} lines, at most {FUNCTION_LINES_MAX}: {head[:80]}")
    return problems
