"""A fingerprint of a model's weights: what keeps KV of other weights from being served under the same name.

    python -m artesian.fingerprint /models/smollm2
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys
import tempfile

# What the KV depends on: weights, and the configuration that says how they are used.
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
_SETTINGS = ("config.json", "params.json", "adapter_config.json")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "scheduler.bin")


def model_folder(name: str, revision: str | None = None, *, cache: str | None = None, sure: bool = True) -> str | None:
    """Where the model's files are: the folder itself, or the one of the Hugging Face cache (`cache`: another one than is usual); None
    if neither is there. `sure`: the engine says of which revision; where it does not, there must be one alone."""
    if os.path.exists(name):
        return name
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(name, "config.json", cache_dir=cache, revision=revision)
    if not isinstance(found, str):
        return None
    folder = os.path.dirname(found)
    return folder if sure or len(os.listdir(os.path.dirname(folder))) == 1 else None


def fingerprint_of(
    name: str, known: str | os.PathLike[str], revision: str | None = None, *, cache: str | None = None, sure: bool = True
) -> str:
    """Of the model that an engine knows by that name; ValueError where it cannot be told which files those are."""
    folder = model_folder(name, revision, cache=cache, sure=sure)
    if folder is None:
        raise ValueError(
            f"artesian: {name}: which files are its weights cannot be told here; give their fingerprint as 'weights' "
            "(python -m artesian.fingerprint FOLDER)"
        )
    return fingerprint(folder, known)


def model_files(model: str | os.PathLike[str]) -> list[pathlib.Path]:
    """The files of a model that decide its KV: itself, or those of its folder."""
    path = pathlib.Path(model)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: is neither a model's file nor its folder")
    files = [
        file
        for file in sorted(path.iterdir())
        if file.is_file()
        and (file.name in _SETTINGS or (file.suffix in _WEIGHTS and file.name not in _NOT_WEIGHTS))
    ]
    if not any(file.suffix in _WEIGHTS for file in files):
        raise FileNotFoundError(f"{path}: holds no weights ({', '.join(_WEIGHTS)})")
    return files


def fingerprint(model: str | os.PathLike[str], known: str | os.PathLike[str] | None = None) -> str:
    """ "sha256:..." over the content of the model's files, whatever it is called and wherever it lies.

    `known`: a folder in which the digests of files are kept, so that the next start does not read them again; a file
    whose size, time of change or inode differs is read anew.
    """
    cache = pathlib.Path(known) / "fingerprints.json" if known is not None else None
    digests = _load(cache)
    whole = hashlib.sha256(b"artesian weights 1")
    changed = False
    for file in model_files(model):
        facts = file.stat()
        stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ino, facts.st_dev]
        kept = digests.get(str(file.resolve()))
        if kept is None or kept[:-1] != stamp:
            with open(file, "rb") as opened:
                kept = [*stamp, hashlib.file_digest(opened, "sha256").hexdigest()]
            digests[str(file.resolve())] = kept
            changed = True
        whole.update(f"{kept[0]} {kept[-1]}\n".encode())
    if cache is not None and changed:
        _save(cache, digests)
    return "sha256:" + whole.hexdigest()


def _load(cache: pathlib.Path | None) -> dict[str, list[object]]:
    if cache is None:
        return {}
    try:
        loaded = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    good = isinstance(loaded, dict) and all(isinstance(kept, list) and len(kept) == 5 for kept in loaded.values())
    return loaded if good else {}


def _save(cache: pathlib.Path, digests: dict[str, list[object]]) -> None:
    """Whole or not at all; without it the next start takes longer, no more."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cache.parent, delete=False) as fresh:
            json.dump(digests, fresh)
        os.replace(fresh.name, cache)
    except OSError:
        pass


if __name__ == "__main__":
    try:
        print(fingerprint(sys.argv[1]))
    except (IndexError, OSError) as error:
        sys.exit(f"artesian.fingerprint: {error if isinstance(error, OSError) else 'takes a model: a file or a folder'}")
