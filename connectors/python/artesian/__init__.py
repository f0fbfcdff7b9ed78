"""Artesian's KV block store: blocks by key, in memory and on flash, in batches with an answer for each block.

A block comes back whole, verified and under its full key, or not at all. Buffers are any objects that have one (bytes,
bytearray, memoryview, numpy arrays, CPU tensors' numpy views): a block is read into them and written from them without a
copy by Python, and a buffer whose address and size are multiples of 4 KiB is not copied at all. The GIL is not held
while the store works.

    artesian.create("/nvme/kv", "50G")
    with artesian.Store("/nvme/kv", memory="2G") as store:
        space = store.namespace(weights="sha256:...", dtype="bf16")
        space.put([b"key"], [block])
        space.get([b"key"], [buffer])        # [Outcome.HIT]
        await space.aget([b"key"], [buffer])

Threads: every method may be called from any thread. What a batch points to must not change until it is answered.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Union

from . import _artesian

__all__ = [
    "Block",
    "Hints",
    "NamedPin",
    "Namespace",
    "Outcome",
    "Pins",
    "Store",
    "StoreError",
    "attach",
    "create",
    "key_of",
    "keys_of",
    "open_or_create",
    "share",
    "size",
]

Path = Union[str, "os.PathLike[str]"]
Buffer = Any  # an object with a buffer; collections.abc.Buffer is of Python 3.12
Data = Union[Buffer, Sequence[Buffer]]  # a block: one buffer, or pieces that follow one another


class StoreError(Exception):
    """A call that failed as a whole: one sentence that says what and where, and a code."""

    code: str = "invalid"  # not_found, rejected, retry, corrupt, device_failed or invalid


_artesian.set_error_class(StoreError)


class Outcome(enum.IntEnum):
    """What came of one block of a batch."""

    NONE = 0
    HIT = 1  # get: the bytes are in the buffer; exists, erase, pin: it is (was) there
    STORED = 2  # put: written and visible; durable after flush
    PRESENT = 3  # put: it is there already, nothing was written
    MISS = 4
    CORRUPT = 5  # it was there and is not what it must be: forgotten, the buffer is zeroed
    LATE = 6  # the deadline passed before it was begun
    REJECTED = 7  # shed, or refused by a policy
    FAILED = 8  # the device reported an error; the buffer is zeroed
    INVALID = 9  # key, size or hints against the limits; for get, a buffer that is too small


_KEY_LIMIT = 255
_OUTCOMES = tuple(Outcome)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)


class Hints(NamedTuple):
    """What is known of a block; 0 is "not known"."""

    session: int = 0
    position: int = 0  # which block of its sequence it is
    tokens: int = 0  # in it
    deadline_ms: int = 0  # Unix time after which it is of no use
    next_use_ms: int = 0  # Unix time at which it will be wanted
    lifetime: int = 0  # blocks of one class, 0 to 3, are expected to die together


@dataclass(frozen=True)
class Block:
    """What a stored block says about itself."""

    key: bytes
    parent: bytes
    attributes: bytes
    bytes: int
    hints: Hints


def size(text: Union[int, str]) -> int:
    """Bytes: a number, or a text as "8G" or "900M" (powers of 1024)."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no size; '8G' and '900M' are")
    return int(float(match[1]) * 1024 ** " KMGTP".index(match[2].upper() or " "))


def key_of(text: str) -> bytes:
    """A key from an engine's name of a block: itself, or its digest where it is too long for a key."""
    key = text.encode()
    return key if 0 < len(key) <= _KEY_LIMIT else b"sha256:" + hashlib.sha256(key).digest()


def keys_of(texts: Sequence[str]) -> list[bytes]:
    return [key_of(text) for text in texts]


def _paths(paths: Union[Path, Sequence[Path]]) -> list[str]:
    some = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [os.fspath(path) for path in some]


def _caps(cap: Union[int, str, None], count: int) -> list[int]:
    return [] if cap is None else [size(cap)] * count


def create(
    paths: Union[Path, Sequence[Path]],
    cap: Union[int, str],
    *,
    segment: Union[int, str] = 0,
    block_max: Union[int, str] = 0,
    overwrite: bool = False,
    key_file: Path = "",
) -> None:
    """Makes an empty store in files, folders or block devices; `cap` is that of each, metadata included. `key_file`: it
    is encrypted with the key in there, 32 bytes or 64 hex digits, mode 0600."""
    names = _paths(paths)
    _artesian.create(names, _caps(cap, len(names)), size(segment), size(block_max), overwrite, os.fspath(key_file))


def open_or_create(
    path: Path,
    cap: Union[int, str, None],
    *,
    memory: Union[int, str] = 0,
    block_max: Union[int, str] = 0,
    queue_depth: int = 0,
    key_file: Path = "",
    shared: bool = False,
) -> Store:
    """The store in a folder (or file); made if there is none, for which `cap` is needed."""
    name = os.fspath(path)
    os.makedirs(name, exist_ok=True)
    if not os.path.exists(os.path.join(name, "artesian.store")):
        if cap is None:
            raise StoreError(f"{name}: there is no store, and no capacity to make one of")
        create(name, cap, block_max=block_max, key_file=key_file)
    return Store(name, cap=cap, memory=memory, queue_depth=queue_depth, key_file=key_file, shared=shared)


def attach(path: Path, *, buffers: Union[int, str] = 0) -> Store:
    """The store in a folder (or file) that another process shares (artesiand, or an owner with shared=True), used as if
    it were this one's own. Data goes through `buffers` of memory that both have. StoreError not_found if nobody shares
    it. When the owner goes, gets fail, puts are rejected and nothing exists until it is back."""
    return Store._of(_artesian.Store(os.fspath(path), size(buffers)))


def share(
    path: Path,
    cap: Union[int, str, None],
    *,
    memory: Union[int, str] = 0,
    block_max: Union[int, str] = 0,
    buffers: Union[int, str] = 0,
    queue_depth: int = 0,
    key_file: Path = "",
    patience: float = 30,
) -> Store:
    """The store in a folder for several processes: whoever comes first owns it (or artesiand does), all others attach to
    it; `buffers` are of each, all else is the owner's. Waits up to `patience` seconds while an owner comes or goes."""
    give_up = time.monotonic() + patience
    while True:
        try:
            return attach(path, buffers=buffers)
        except StoreError as error:
            if error.code not in ("not_found", "retry"):
                raise
        try:
            return open_or_create(
                path, cap, memory=memory, block_max=block_max, queue_depth=queue_depth, key_file=key_file, shared=True
            )
        except StoreError as error:
            # Another one is just making or opening it.
            if error.code not in ("rejected", "not_found") or time.monotonic() > give_up:
                raise
        time.sleep(0.05)


class Store:
    """An open store; the only owner of its files. Closing waits for what is under way."""

    def __init__(
        self,
        paths: Union[Path, Sequence[Path]],
        *,
        cap: Union[int, str, None] = None,
        memory: Union[int, str] = 0,
        buffers: Union[int, str] = 0,
        queue_depth: int = 0,
        metrics: str = "",
        key_file: Path = "",
        shared: bool = False,
    ) -> None:
        """`cap`: of each path, where it is to change. `memory`: of the memory tier. `buffers`: for what is on its way.
        `metrics`: where figures are served for Prometheus: "9464", on this machine alone, or "address:port".
        `key_file`: of an encrypted store. `shared`: other processes of this user may attach()."""
        names = _paths(paths)
        self._use(
            _artesian.Store(
                names,
                _caps(cap, len(names)),
                size(memory),
                size(buffers),
                queue_depth,
                metrics,
                os.fspath(key_file),
                shared,
            )
        )

    @classmethod
    def _of(cls, native: _artesian.Store) -> Store:
        store = cls.__new__(cls)
        store._use(native)
        return store

    def _use(self, native: _artesian.Store) -> None:
        self._store = native
        self._waiting: dict[int, asyncio.Future[tuple[list[int], list[int]]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._store.event_fd())
        self._loop = None
        self._store.close()

    def namespace(
        self,
        *,
        weights: str,
        model: str = "",
        dtype: str = "",
        layout: str = "",
        adapter: str = "",
        salt: str = "",
        codec: str = "",
        policy: str = "",
        block_tokens: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> Namespace:
        """Opens or makes what keeps these blocks apart from all others; `weights` is a fingerprint, and demanded.

        `codec` and `policy` are not part of what it is: how its new blocks are coded ("exponent"), and which are written and
        stay ("chats", "shared", or a pair such as "second-sighting+clock").
        """
        space = self._store.open_namespace(
            weights, model, dtype, layout, adapter, salt, codec, policy, block_tokens, rank, world_size
        )
        return Namespace(self, space)

    def flush(self) -> None:
        """What was stored or erased before is durable when this returns."""
        self._store.flush()

    def stats(self) -> dict[str, int]:
        return self._store.stats()

    def metrics_port(self) -> int:
        """0 if none are served."""
        return self._store.metrics_port()

    def event_fd(self) -> int:
        """Readable while there is something to drain. Not together with the awaitable calls, which use it, too."""
        return self._store.event_fd()

    def drain(self) -> list[tuple[int, list[int], list[int] | None]]:
        """[(tag, outcomes, sizes or None)] of the submitted batches that were answered since."""
        return self._store.drain()

    def settle(self) -> None:
        """Waits until nothing that was submitted is under way; what came of it stays to be drained."""
        self._store.settle()

    async def _answer(self, tag: int) -> tuple[list[int], list[int]]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._waiting:
                raise StoreError("a store can be awaited in one event loop at a time")
            self._loop = loop
            loop.add_reader(self._store.event_fd(), self._answered)
        future: asyncio.Future[tuple[list[int], list[int]]] = loop.create_future()
        self._waiting[tag] = future
        self._answered()  # it may have come before anybody listened
        return await future

    def _answered(self) -> None:
        for tag, outcomes, sizes in self._store.drain():
            future = self._waiting.pop(tag, None)
            if future is not None and not future.done():
                future.set_result((outcomes, sizes or []))


class Pins:
    """Blocks that are not evicted until this is closed, or its process ends."""

    def __init__(self, store: Any, space: int, keys: list[bytes], outcomes: list[Outcome]) -> None:
        self._store, self._space, self._keys = store, space, keys
        self.outcomes = outcomes

    def __enter__(self) -> Pins:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        keys, self._keys = self._keys, []
        if keys:
            self._store.unpin(self._space, keys)


class NamedPin(NamedTuple):
    blocks: int
    bytes: int


class Namespace:
    """Blocks of one model, in one layout, for one tenant. `deadline`: seconds from now, 0 for none; `staged`: after
    demand reads."""

    def __init__(self, store: Store, space: int) -> None:
        self.store = store
        self.id = space
        self._native = store._store

    def put(
        self,
        keys: Sequence[Buffer],
        data: Sequence[Data],
        *,
        parents: Sequence[Buffer | None] | None = None,
        attributes: Sequence[Buffer | None] | None = None,
        hints: Sequence[Hints | None] | None = None,
        deadline: float = 0,
    ) -> list[Outcome]:
        return _named(self._native.put(self.id, keys, data, parents, attributes, hints, deadline, False))

    def get(
        self, keys: Sequence[Buffer], buffers: Sequence[Data], *, deadline: float = 0, staged: bool = False
    ) -> list[Outcome]:
        """Fills the buffers; get_sizes() says the blocks' sizes, too."""
        return self.get_sizes(keys, buffers, deadline=deadline, staged=staged)[0]

    def get_sizes(
        self, keys: Sequence[Buffer], buffers: Sequence[Data], *, deadline: float = 0, staged: bool = False
    ) -> tuple[list[Outcome], list[int]]:
        outcomes, sizes = self._native.get(self.id, keys, buffers, deadline, staged)
        return _named(outcomes), sizes

    async def aput(
        self,
        keys: Sequence[Buffer],
        data: Sequence[Data],
        *,
        parents: Sequence[Buffer | None] | None = None,
        attributes: Sequence[Buffer | None] | None = None,
        hints: Sequence[Hints | None] | None = None,
        deadline: float = 0,
    ) -> list[Outcome]:
        tag = self._native.submit_put(self.id, keys, data, parents, attributes, hints, deadline, False)
        return _named((await self.store._answer(tag))[0])

    async def aget(
        self, keys: Sequence[Buffer], buffers: Sequence[Data], *, deadline: float = 0, staged: bool = False
    ) -> list[Outcome]:
        tag = self._native.submit_get(self.id, keys, buffers, deadline, staged)
        return _named((await self.store._answer(tag))[0])

    async def astage(self, keys: Sequence[Buffer], *, deadline: float = 0) -> list[Outcome]:
        """Brings blocks into the memory tier by the deadline, so that a get finds them there."""
        tag = self._native.submit_stage(self.id, keys, deadline)
        return _named((await self.store._answer(tag))[0])

    def submit_put(
        self,
        keys: Sequence[Buffer],
        data: Sequence[Data],
        *,
        parents: Sequence[Buffer | None] | None = None,
        hints: Sequence[Hints | None] | None = None,
        deadline: float = 0,
    ) -> int:
        """Never blocks; the tag comes back from Store.drain()."""
        return self._native.submit_put(self.id, keys, data, parents, None, hints, deadline, False)

    def submit_get(
        self, keys: Sequence[Buffer], buffers: Sequence[Data], *, deadline: float = 0, staged: bool = False
    ) -> int:
        return self._native.submit_get(self.id, keys, buffers, deadline, staged)

    def submit_stage(self, keys: Sequence[Buffer], *, deadline: float = 0) -> int:
        return self._native.submit_stage(self.id, keys, deadline)

    def submit_exists(self, keys: Sequence[Buffer]) -> int:
        """Answered from memory, and drained like the others: HIT or MISS for each key."""
        return self._native.submit_exists(self.id, keys)

    def submit_erase(self, keys: Sequence[Buffer]) -> int:
        return self._native.submit_erase(self.id, keys)

    def exists(self, keys: Sequence[Buffer]) -> list[bool]:
        return [outcome == Outcome.HIT for outcome in self._native.exists(self.id, keys)]

    def longest_prefix(self, keys: Sequence[Buffer]) -> int:
        """How many of the keys, from the first on, are there."""
        return self._native.longest_prefix(self.id, keys)

    def erase(self, keys: Sequence[Buffer]) -> list[Outcome]:
        return _named(self._native.erase(self.id, keys))

    def erase_all(self) -> None:
        """All blocks are unreadable when this returns, also after a crash."""
        self._native.erase_namespace(self.id)

    def pin(self, keys: Sequence[bytes]) -> Pins:
        outcomes = _named(self._native.pin(self.id, keys))
        held = [key for key, outcome in zip(keys, outcomes) if outcome is Outcome.HIT]
        return Pins(self._native, self.id, held, outcomes)

    def pin_named(self, name: str, keys: Sequence[Buffer]) -> list[Outcome]:
        """Keeps blocks under a name, on flash, until unpin_named; more may be added later. Durable when it returns."""
        return _named(self._native.pin_named(self.id, name, keys))

    def unpin_named(self, name: str) -> bool:
        """False if there was none of that name."""
        return self._native.unpin_named(self.id, name)

    def named_pins(self) -> dict[str, NamedPin]:
        pins = self._native.named_pins()
        return {name.decode(errors="replace"): NamedPin(blocks, size) for ns, name, blocks, size in pins if ns == self.id}

    def __iter__(self) -> Iterator[Block]:
        for key, parent, attributes, count, hints in self._native.list(self.id):
            yield Block(key, parent, attributes, count, Hints(*hints))


def _named(outcomes: list[int]) -> list[Outcome]:
    return [_OUTCOMES[outcome] for outcome in outcomes]
