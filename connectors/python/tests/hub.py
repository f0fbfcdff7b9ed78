"""A cache of Hugging Face's with one model in it, for the tests: huggingface_hub itself where it is installed, else what it does."""

import contextlib
import importlib.util
import os
import pathlib
import sys
import types
from unittest import mock


def _find(repo: str, name: str, cache_dir: str, revision: str | None) -> str | None:
    root = pathlib.Path(cache_dir) / f"models--{repo.replace('/', '--')}"
    named = root / "refs" / (revision or "main")
    found = root / "snapshots" / (named.read_text() if named.exists() else revision or "") / name
    return str(found) if found.is_file() else None


@contextlib.contextmanager
def hub(folder: str, repo: str, revisions: list[str]):
    """Each revision has weights of its own; the last one is `main`."""
    root = pathlib.Path(folder) / f"models--{repo.replace('/', '--')}"
    for revision in revisions:
        snapshot = root / "snapshots" / revision
        os.makedirs(snapshot, exist_ok=True)
        (snapshot / "config.json").write_text("{}")
        (snapshot / "model.safetensors").write_text(f"weights of {revision}")
        os.makedirs(root / "refs", exist_ok=True)
        (root / "refs" / "main").write_text(revision)
    real = importlib.util.find_spec("huggingface_hub")
    find = __import__("huggingface_hub").try_to_load_from_cache if real else _find
    stand_in = types.ModuleType("huggingface_hub")
    stand_in.try_to_load_from_cache = lambda repo, name, cache_dir=None, revision=None: find(repo, name, cache_dir or folder, revision)
    with mock.patch.dict(sys.modules, {"huggingface_hub": stand_in}):
        yield root / "snapshots"
