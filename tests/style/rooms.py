"""Every room has a README.md of one screen, and no tracked file names a path of the machine it was written on."""

import pathlib
import re

import tree

README_LINES_MAX = 60
# Folders that hold rooms: each folder in them is a room. Other folders at the top are rooms themselves.
BUILDINGS = {"src", "apps", "plugins", "connectors"}
NO_ROOM = {"cmake", "include", ".ci", "docs"}
MACHINE_PATH = re.compile(r"(?<![\w.~])/(work/|root/|tmp/build|tmp/w/)")


def rooms(root: pathlib.Path) -> list[pathlib.Path]:
    found = set()
    for name in tree.files(root):
        top = name.parts[0]
        if top in BUILDINGS and len(name.parts) > 2:
            found.add(pathlib.Path(top, name.parts[1]))
        elif top not in BUILDINGS and top not in NO_ROOM and len(name.parts) > 1:
            found.add(pathlib.Path(top))
    return sorted(found)


def check_readmes(root: pathlib.Path = tree.ROOT) -> list[str]:
    problems = []
    for room in rooms(root):
        readme = root / room / "README.md"
        if not readme.is_file():
            problems.append(f"{room}: has no README.md")
        elif (lines := readme.read_text().count("\n")) > README_LINES_MAX:
            problems.append(f"{room}/README.md: {lines} lines, at most {README_LINES_MAX}")
    return problems


def check_paths(root: pathlib.Path = tree.ROOT) -> list[str]:
    problems = []
    here = pathlib.Path(__file__).resolve().parent
    for name in tree.files(root):
        path = root / name
        if path.parent == here:  # these files name them to find them
            continue
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                problems.append(f"{name}:{number}: a path of one machine: {line.strip()[:100]}")
    return problems
