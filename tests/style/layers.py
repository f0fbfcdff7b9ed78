"""Arrows point one way: the include lines of every C++ file, and the DEPS of every room's CMakeLists.txt, against the
table in src/README.md."""

import pathlib
import re

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# Headers of the operating system and of its rings: only platform/, and the plugin (its preload shim has no main).
OPERATING_SYSTEM = re.compile(
    r"^\s*#\s*include\s+<((?:sys|linux|netinet|arpa)/[^>]+|unistd\.h|fcntl\.h|dlfcn\.h|pthread\.h|sched\.h|poll\.h|liburing\.h"
    r"|signal\.h|dirent\.h|elf\.h|link\.h)>", re.MULTILINE)
MAY_CALL_THE_SYSTEM = {"platform", "plugins", "tests"}
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")


def table(readme: str) -> dict[str, set[str]]:
    """Room -> rooms it may include, from the rows "| room | may include | what it is |"."""
    rows = {}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and re.fullmatch(r"[a-z]+", cells[0]) and cells[0] != "room":
            rows[cells[0]] = set(cells[1].split())
    return rows


def room_of(name: pathlib.Path) -> str | None:
    """The table's row for a file; None for what is in no row."""
    parts = name.parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0] if len(parts) > 1 else None


def include_problem(name: pathlib.Path, target: str, rows: dict[str, set[str]], root: pathlib.Path) -> str | None:
    room, first = room_of(name), target.split("/")[0]
    if "/" in target and first in rows and (root / "src" / target).is_file():
        if first == room or first in rows[room]:
            return None
        return f'{name}: includes "{target}", but {room} may not include {first} (src/README.md)'
    own = root / name.parts[0] if name.parts[0] != "src" else root / name.parent
    places = [(root / name).parent, own, root / "include"]
    if any((place / target).is_file() for place in places):
        return None
    generated = (root / f"{target}.in").is_file()  # by configure_file
    if "/" in target and first in rows and ((root / target).is_file() or generated):  # bench/... from tests
        return None if first == room or first in rows[room] else f'{name}: {room} may not include "{target}" (src/README.md)'
    return f'{name}: includes "{target}", which is no header of its own or of src/; system headers take <>'


def cycle(rows: dict[str, set[str]]) -> list[str]:
    """The rooms that stand in a circle; empty where arrows point one way."""
    left = dict(rows)
    while free := [room for room, below in left.items() if not below & left.keys()]:
        for room in free:
            del left[room]
    return sorted(left)


def cmake_problems(name: pathlib.Path, text: str, rows: dict[str, set[str]]) -> list[str]:
    problems = []
    for room, arguments in re.findall(r"artesian_room\((\w+)([^)]*)\)", text):
        deps = re.search(r"\bDEPS\b((?:\s+(?!TEST_DEPS)\S+)*)", re.sub(r"#.*", "", arguments))
        for dep in deps.group(1).split() if deps else []:
            if dep in rows and dep not in rows.get(room, set()):
                problems.append(f"{name}: DEPS {dep}, but {room} may not include {dep} (src/README.md)")
    return problems


def check(root: pathlib.Path = tree.ROOT) -> list[str]:
    rows = table((root / "src" / "README.md").read_text())
    problems = [f"src/README.md: {room} is in a circle" for room in cycle(rows)]
    for name in tree.files(root):
        if name.suffix in tree.CPP:
            text = (root / name).read_text()
            if room_of(name) not in rows:
                problems.append(f"{name}: {room_of(name)} has no row in src/README.md")
                continue
            found = (include_problem(name, target, rows, root) for target in INCLUDE.findall(text))
            problems += [problem for problem in found if problem]
            is_test = name.stem.endswith(("_test", "_bench"))
            if room_of(name) not in MAY_CALL_THE_SYSTEM and not is_test:
                problems += [f"{name}: <{header}>: only platform/ calls the operating system"
                             for header in OPERATING_SYSTEM.findall(text)]
        elif name.name == "CMakeLists.txt" and name.parts[0] == "src":
            problems += cmake_problems(name, (root / name).read_text(), rows)
    return problems + environment_problems(root)


def environment_problems(root: pathlib.Path) -> list[str]:
    """Only main reads the environment; of the plugin and of its preload shim one file each does; tests may."""
    readers: dict[str, list[str]] = {}
    for name in tree.cpp_files(root):
        if name.parts[0] in ("tests", "bench") or name.stem.endswith("_test"):
            continue
        code = re.sub(r"//.*", "", (root / name).read_text())
        if ENVIRONMENT.search(code):
            readers.setdefault(room_of(name) or "", []).append(str(name))
    problems = []
    for room, names in readers.items():
        if room == "apps":
            problems += [f"{name}: only main.cpp reads the environment" for name in names if not name.endswith("main.cpp")]
        elif room == "plugins":
            if len(names) > 2:
                problems.append(f"plugins: {', '.join(names)} read the environment: one file of the plugin and one of the shim may")
        elif room != "platform":
            problems += [f"{name}: only main reads the environment" for name in names]
    return problems
