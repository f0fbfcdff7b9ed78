"""LMCache's native file adapter (`fs_native`): its own C++ client, direct I/O, as many workers as requests are under way.

The extension is loaded by itself: LMCache's package around it takes six seconds to import and is not in the way of a block.
"""

from __future__ import annotations

import importlib.util
import os
import select
import sysconfig
from typing import Any

import torch  # noqa: F401  the extension is linked with its libraries

from rounds import Task, main, sync


def native_client() -> Any:
    folder = os.path.join(sysconfig.get_path("purelib"), "lmcache")
    name = "lmcache_fs" + sysconfig.get_config_var("EXT_SUFFIX")
    spec = importlib.util.spec_from_file_location("lmcache_fs", os.path.join(folder, name))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LMCacheFSClient


class LmcacheFiles:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.client = native_client()(task.folder, task.depth, "", True, 0)
        self.event = self.client.event_fd()
        self.poll = select.poll()
        self.poll.register(self.event, select.POLLIN)
        self.slots: dict[int, int] = {}

    def start(self, slot: int, number: int, memory: memoryview) -> None:
        submit = self.client.submit_batch_set if self.task.put else self.client.submit_batch_get
        self.slots[submit([f"bench@0@0@{number:016x}"], [memory])] = slot

    def ended(self) -> list[tuple[int, bool]]:
        while True:
            self.poll.poll()
            all_done = self.client.drain_completions()
            if all_done:
                return [(self.slots.pop(future), ok and (each is None or all(each))) for future, ok, _, each in all_done]

    def lost_after_flush(self) -> int:
        sync(self.task.folder)
        return 0

    def close(self) -> None:
        self.client.close()


if __name__ == "__main__":
    main(lambda task, _: LmcacheFiles(task))
