"""What the peers that are spoken to in Python have in common: blocks, a round of puts or gets, the line that says what came of it.

`main(open_peer)` is a whole program: PROGRAM put|get FOLDER BYTES COUNT DEPTH SECONDS. A peer begins operations and tells
which have ended; one thread keeps DEPTH of them under way.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

PAGE = 4096
WINDOWS = 251


@dataclass
class Task:
    put: bool
    folder: str
    bytes: int
    count: int
    depth: int
    seconds: float


class Peer(Protocol):
    def start(self, slot: int, number: int, memory: memoryview) -> None:
        """Block `number` is put from `memory` or read into it."""

    def ended(self) -> list[tuple[int, bool]]:
        """Waits for one; slots that have ended, and whether the block was taken or found."""

    def lost_after_flush(self) -> int:
        """After puts: returns when all is on the drive; how many blocks will never be."""

    def close(self) -> None:
        """Nothing of the peer goes on."""


def pages(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, size))


def address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def sync(folder: str) -> None:
    """All of the file system is on the drive, names included."""
    there = os.open(folder, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).syncfs(there) != 0:
        raise OSError(ctypes.get_errno(), "syncfs", folder)
    os.close(there)


def forget(folder: str) -> None:
    """Nothing of the folder's files is in the page cache any more."""
    sync(folder)
    for at, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(at, name), os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


class Blocks:
    """A block is a window on random bytes that begins at another page for each."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.bytes = pages(-(-size // PAGE) * PAGE + WINDOWS * PAGE)
        self.bytes[:] = random.Random(size).randbytes(len(self.bytes))

    def of(self, number: int) -> memoryview:
        at = number % WINDOWS * PAGE
        return self.bytes[at : at + self.size]

    def is_right(self, number: int, read: memoryview) -> bool:
        """By the first and the last page: all of it would take a peer's time."""
        want = self.of(number)
        return read[:PAGE].tobytes() == want[:PAGE].tobytes() and read[-PAGE:].tobytes() == want[-PAGE:].tobytes()


def numbers(task: Task) -> Iterator[int]:
    """Gets take each block once, so that what the page cache has kept of one is no help."""
    order = list(range(task.count))
    if not task.put:
        random.Random(task.depth).shuffle(order)
    return iter(order)


def one_round(task: Task, blocks: Blocks, rooms: list[memoryview], peer: Peer) -> dict[str, float]:
    left = numbers(task)
    free, begun = list(range(task.depth)), dict[int, tuple[int, float]]()
    latencies: list[float] = []
    done = wrong = missing = 0
    begin = time.monotonic()
    while True:
        while free and (task.put or time.monotonic() - begin < task.seconds):
            number = next(left, None)
            if number is None:
                break
            slot = free.pop()
            begun[slot] = number, time.monotonic()
            peer.start(slot, number, blocks.of(number) if task.put else rooms[slot])
        if not begun:
            break
        for slot, there in peer.ended():
            number, at = begun.pop(slot)
            latencies.append(time.monotonic() - at)
            free.append(slot)
            missing += not there
            done += there
            wrong += there and not task.put and not blocks.is_right(number, rooms[slot])
    if task.put:
        lost = peer.lost_after_flush()
        done, missing = done - lost, missing + lost
    seconds = time.monotonic() - begin
    latencies.sort()
    p99 = latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1e6 if latencies else 0
    return {"bytes": done * task.bytes, "blocks": done, "seconds": seconds, "p99_us": p99, "wrong": wrong, "missing": missing}


def main(open_peer: Callable[[Task, list[memoryview]], Peer]) -> None:
    """`open_peer` is told of all memory that values come from or go to."""
    if len(sys.argv) != 7 or sys.argv[1] not in ("put", "get"):
        sys.exit(f"usage: {sys.argv[0]} put|get FOLDER BYTES COUNT DEPTH SECONDS")
    size, count, depth = (int(text) for text in sys.argv[3:6])
    task = Task(sys.argv[1] == "put", os.path.abspath(sys.argv[2]), size, count, depth, float(sys.argv[6]))
    os.makedirs(task.folder, exist_ok=True)
    blocks = Blocks(task.bytes)
    rooms = [pages(task.bytes) for _ in range(task.depth)]
    peer = open_peer(task, [blocks.bytes, *rooms])
    try:
        if not task.put:
            forget(task.folder)
        print(json.dumps(one_round(task, blocks, rooms, peer)), flush=True)
    finally:
        peer.close()
