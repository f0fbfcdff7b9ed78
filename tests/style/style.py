"""Runs one check over the tree: style.py CHECK [ARGUMENT]. Exit code 0: nothing found; 1: problems, one a line; 77: skipped.
A new check is one function that returns problems and one row below."""

import pathlib
import sys

import layers
import links
import programs
import rooms
import sizes

CHECKS = {
    "layers": layers.check,
    "sizes": sizes.check,
    "readmes": rooms.check_readmes,
    "paths": rooms.check_paths,
    "links": links.check,
    "format": programs.check_format,
    "help": lambda program: programs.check_help(pathlib.Path(program)),
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in CHECKS:
        print(f"style.py takes one of: {' '.join(CHECKS)}", file=sys.stderr)
        return 2
    try:
        problems = CHECKS[arguments[0]](*arguments[1:])
    except programs.Skipped as reason:
        print(f"SKIP: {reason}")
        return 77
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
