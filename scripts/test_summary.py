"""Adds up what ctest (JUnit files) and the fuzzers (extra.tsv) left in a folder, lists failures and skips with their
reasons, and ends with the line "N passed, N failed, N skipped". Exit code 1 when something failed, when nothing ran,
or, with CI=true, when something was skipped for a reason that is not allowed."""

import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

ALLOWED_SKIP = re.compile(
    r"\bGPU\b|\bNVMe\b|second engine|API version 2|ARTESIAN_ENGINE2|\btraces?\b|recorded routes|ARTESIAN_TRACES",
    re.IGNORECASE)


def skip_reason(output: str) -> str:
    """GoogleTest prints the reason on the lines after "file:line: Skipped"; scripts print "SKIP: reason"."""
    found = re.search(r"Skipped\n(.+?)(?:\n\n|\n\[|\Z)", output, re.DOTALL) or re.search(r"SKIP: *(.+)", output)
    return " ".join(found.group(1).split()) if found else "no reason given"


def outcomes_of_junit(path: pathlib.Path):
    """Yields (outcome, name, detail) for each test of one ctest run."""
    preset = path.stem.rsplit("-", 1)[0]
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{preset}: {case.get('name')}"
        output = case.findtext("system-out") or ""
        status = case.get("status")
        if case.find("skipped") is not None and re.search(r"SKIP|Skipped", output):
            yield "skipped", name, skip_reason(output)
        elif status == "run" and case.find("failure") is None:
            yield "passed", name, ""
        elif status == "disabled":
            yield "skipped", name, "the test is disabled"
        else:
            yield "failed", name, "not built or not run" if status == "notrun" else ""


def outcomes_of_folder(folder: pathlib.Path):
    for path in sorted(folder.glob("*.xml")):
        yield from outcomes_of_junit(path)
    extra = folder / "extra.tsv"
    if extra.exists():
        for line in extra.read_text().splitlines():
            outcome, name = line.split("\t", 1)
            yield outcome, name, ""


def main(folder: str, strict: bool) -> int:
    by_outcome = {"passed": [], "failed": [], "skipped": []}
    for outcome, name, detail in outcomes_of_folder(pathlib.Path(folder)):
        by_outcome[outcome].append((name, detail))
    for name, reason in by_outcome["skipped"]:
        print(f"skipped: {name}: {reason}")
    for name, detail in by_outcome["failed"]:
        print(f"failed: {name}" + (f" ({detail})" if detail else ""))
    bad = bool(by_outcome["failed"]) or not by_outcome["passed"]
    refused = [name for name, reason in by_outcome["skipped"] if not ALLOWED_SKIP.search(reason)]
    if strict and refused:
        print(f"CI=true: {len(refused)} of the skips above are for none of: a GPU, an NVMe device, a second engine, traces")
        bad = True
    if not by_outcome["passed"] and not by_outcome["failed"]:
        print("no test ran")
    print(", ".join(f"{len(by_outcome[key])} {key}" for key in ("passed", "failed", "skipped")))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ.get("CI") == "true"))
