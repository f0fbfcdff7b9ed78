"""Mooncake Store with its SSD offload: a real master, a real client in this process, every value offloaded to FOLDER.

One file per key (`file_per_key_storage_backend`): of its buckets, which Mooncake recommends, the last is kept in memory until
it is full, and here others never reached the drive either. Memory for all values is there, so that no put is refused for want of it; gets
are by a new client with empty memory, so that they come from the drive.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.update(
    MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR="file_per_key_storage_backend",
    MOONCAKE_OFFLOAD_USE_URING="true",  # and with it direct I/O
    MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS="1",  # how often it looks for what is to be offloaded
    MOONCAKE_OFFLOAD_CLIENT_BUFFER_GC_TTL_MS="1000",  # else reads run out of its staging memory
)

# It says a line for each get; what Python itself has to say goes where it went.
sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

from mooncake.store import MooncakeDistributedStore

from rounds import Task, address, main, sync

MiB = 1 << 20
PATIENCE = 10.0  # seconds in which nothing more reaches the drive: it never will


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start_master(port: int) -> subprocess.Popen[bytes]:
    """Returns once it answers."""
    program = os.path.join(sysconfig.get_path("purelib"), "mooncake", "mooncake_master")
    master = subprocess.Popen(
        [program, f"--rpc_port={port}", f"--metrics_port={free_port()}", "--enable_offload=true"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return master
        time.sleep(0.1)
    master.kill()
    sys.exit("mooncake_master does not answer")


def key_of(number: int) -> str:
    return f"block{number:016x}"


class Mooncake:
    def __init__(self, task: Task, memories: list[memoryview]) -> None:
        self.task = task
        port = free_port()
        self.master = start_master(port)
        self.store = MooncakeDistributedStore()
        segment = task.bytes * task.count * 5 // 4 + 256 * MiB if task.put else 64 * MiB
        options = {
            "local_hostname": "127.0.0.1",
            "metadata_server": "P2PHANDSHAKE",
            "global_segment_size": str(segment),
            "local_buffer_size": str(64 * MiB),
            "protocol": "tcp",
            "master_server_addr": f"127.0.0.1:{port}",
            "enable_ssd_offload": "true",
            "ssd_offload_path": task.folder,
        }
        if self.store.setup(options) != 0:
            sys.exit("the Mooncake client cannot be set up")
        for memory in memories:
            if self.store.register_buffer(address(memory), len(memory)) != 0:
                sys.exit("the Mooncake client does not take the memory")
        self.threads = ThreadPoolExecutor(task.depth)
        self.done: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()

    def start(self, slot: int, number: int, memory: memoryview) -> None:
        self.threads.submit(self.one, slot, key_of(number), address(memory))

    def one(self, slot: int, key: str, at: int) -> None:
        if self.task.put:
            there = self.store.put_from(key, at, self.task.bytes) == 0
        else:
            there = self.store.get_into(key, at, self.task.bytes) == self.task.bytes
        self.done.put((slot, there))

    def ended(self) -> list[tuple[int, bool]]:
        return [self.done.get()]

    def lost_after_flush(self) -> int:
        left, moved = list(range(self.task.count)), time.monotonic()
        while left and time.monotonic() - moved < PATIENCE:
            where = self.store.batch_get_replica_desc([key_of(number) for number in left])
            on_drive = {key for key, all_of in where.items() if any(one.is_local_disk_replica() for one in all_of)}
            if on_drive:
                moved = time.monotonic()
                left = [number for number in left if key_of(number) not in on_drive]
            else:
                time.sleep(0.05)
        sync(self.task.folder)
        return len(left)

    def close(self) -> None:
        self.threads.shutdown()
        self.store.close()
        del self.store  # which says goodbye to the master
        self.master.kill()
        self.master.wait()


if __name__ == "__main__":
    main(Mooncake)
