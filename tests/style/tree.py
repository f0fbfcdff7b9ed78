"""The files of the tree that are ours: what git tracks or would track, so that build folders and models stay out."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP = {".h", ".cpp"}


def files(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """All files below root, relative to it. Outside a git checkout (an unpacked archive): all but build/ and hidden ones."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True,
                            text=True, check=False)
    if listed.returncode == 0:
        names = [pathlib.Path(name) for name in listed.stdout.split("\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*")]
        names = [name for name in names if name.parts[0] != "build" and not name.parts[0].startswith(".git")]
    return sorted(name for name in names if (root / name).is_file())


def cpp_files(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    return [name for name in files(root) if name.suffix in CPP]
