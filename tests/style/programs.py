"""Checks that run a program: the formatter over every C++ file, and --help of every command of artesian."""

import pathlib
import re
import shutil
import subprocess

import tree

FORMATTER = "clang-format-19"


class Skipped(Exception):
    pass


def check_format(root: pathlib.Path = tree.ROOT) -> list[str]:
    if not shutil.which(FORMATTER):
        raise Skipped(f"{FORMATTER} is not installed; ./test installs it")
    names = [str(name) for name in tree.cpp_files(root)]
    ran = subprocess.run([FORMATTER, "--dry-run", "-Werror", *names], cwd=root, capture_output=True, text=True, check=False)
    bad = sorted({line.split(":")[0] for line in ran.stderr.splitlines() if "error:" in line})
    problems = [f"{name}: not as {FORMATTER} writes it; {FORMATTER} -i {name}" for name in bad]
    return problems or ([] if ran.returncode == 0 else [ran.stderr])


def help_of(program: pathlib.Path, *command: str) -> str:
    ran = subprocess.run([program, *command, "--help"], capture_output=True, text=True, timeout=30, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{program.name} {' '.join(command)} --help ends with exit code {ran.returncode}: {ran.stderr}")
    return ran.stdout


def commands_in(text: str) -> list[str]:
    """The names below the heading of subcommands in what CLI11 prints."""
    found = re.search(r"^(?:Subcommands|SUBCOMMANDS|Commands):\n((?:[ \t]+.*\n|\n(?=[ \t]))+)", text, re.MULTILINE)
    return re.findall(r"^  ([a-z][\w-]*)", found.group(1), re.MULTILINE) if found else []


def check_help(program: pathlib.Path) -> list[str]:
    """Every command, down to the innermost, shows examples. A command with commands of its own may leave them to those."""
    problems = []

    def visit(command: tuple[str, ...]) -> None:
        text = help_of(program, *command)
        inner = commands_in(text)
        for name in inner:
            visit((*command, name))
        if not inner and not re.search(r"examples?:", text, re.IGNORECASE):
            problems.append(f"{program.name} {' '.join(command)} --help: has no examples")

    top = commands_in(help_of(program))
    if not top:
        problems.append(f"{program.name} --help: names no commands")
    for name in top:
        visit((name,))
    return problems
