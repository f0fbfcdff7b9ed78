"""What our documents point at exists: relative links of every Markdown file, and the files that docs/one-read.md names."""

import pathlib
import re

import tree

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.\w+)`")
PATH_DOCUMENT = pathlib.Path("docs/one-read.md")


def check(root: pathlib.Path = tree.ROOT) -> list[str]:
    problems = []
    for name in tree.files(root):
        if name.suffix != ".md":
            continue
        text = (root / name).read_text()
        problems += [f"{name}: points at {target}, which is not there" for target in LINK.findall(text)
                     if "://" not in target and not ((root / name).parent / target).exists()]
        if name == PATH_DOCUMENT:
            problems += [f"{name}: names {target}, which is not there" for target in NAMED.findall(text)
                         if not (root / target).exists()]
    return problems
