"""What ArtesianConnector counts, where vLLM has a place for it: its log lines "KV Transfer metrics: ..." and Prometheus.

Of the seconds in which blocks are read, those in which the compute waits for them are told apart: the others are hidden behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
from vllm.v1.metrics.utils import create_metric_per_engine

if TYPE_CHECKING:
    from vllm.config import VllmConfig

COUNTED = {
    "bytes_loaded": "Bytes of KV that came from flash.",
    "bytes_stored": "Bytes of KV that were handed to the store on flash.",
    "blocks_failed": "Blocks that could not be loaded and were computed again.",
    "seconds_reading": "Seconds in which blocks were read.",
    "seconds_blocked": "Of these, seconds in which the compute waited for them.",
    "seconds_storing": "Seconds at the end of steps in which the compute waited for stores.",
}


class ArtesianStats(KVConnectorStats):  # type: ignore[misc]
    """Sums since they were last taken."""

    def __init__(self, data: dict[str, Any] | None = None) -> None:
        super().__init__(data or dict.fromkeys(COUNTED, 0))

    data: dict[str, Any]

    def count(self, name: str, more: float) -> None:
        self.data[name] += more

    def reset(self) -> None:
        self.data = dict.fromkeys(COUNTED, 0)

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for name, more in other.data.items():
            self.data[name] += more
        return self

    def reduce(self) -> dict[str, int | float]:
        reading, blocked = self.data["seconds_reading"], self.data["seconds_blocked"]
        return {
            "MB from flash": round(self.data["bytes_loaded"] / 1e6, 1),
            "MB to flash": round(self.data["bytes_stored"] / 1e6, 1),
            "blocks computed again": self.data["blocks_failed"],
            "seconds of reading": round(reading, 4),
            "% of them hidden behind compute": round(100 * (1 - blocked / reading)) if reading else 0,
            "seconds waited for stores": round(self.data["seconds_storing"], 4),
        }

    def is_empty(self) -> bool:
        return not any(self.data.values())


class ArtesianMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """The same for Prometheus: vllm:artesian_bytes_loaded and so on."""

    def __init__(
        self, vllm_config: VllmConfig, metric_types: Any, labelnames: list[str], per_engine_labelvalues: dict[int, list[object]]
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {
            name: create_metric_per_engine(
                self._counter_cls(name=f"vllm:artesian_{name}", documentation=text, labelnames=labelnames), per_engine_labelvalues
            )
            for name, text in COUNTED.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, more in transfer_stats_data.items():
            self._counters[name][engine_idx].inc(more)
