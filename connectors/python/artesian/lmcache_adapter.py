"""Artesian as an L2 tier of LMCache (tested with 0.5.6) that finds the data type by itself: an adapter of type plugin.

    lmcache server ... --l2-adapter '{"type": "plugin", "module_path": "artesian.lmcache_adapter", "class_name": "ArtesianL2Adapter",
      "adapter_params": {"path": "/nvme/kv", "capacity": "200G", "model": "/models/smollm2"}}'

LMCache's keys do not name the KV's data type and shape, and a native plugin is told neither; an adapter is, with each lookup and each
object, so that here they are part of every key. All else is LMCache's NativeConnectorL2Adapter over ArtesianL2.
"""

from __future__ import annotations

from typing import Any

from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import NativeConnectorL2Adapter

from artesian.lmcache import ArtesianL2


def _kind(shapes: list[Any], dtypes: list[Any]) -> str:
    return ",".join(f"{dtype}{list(shape)}" for shape, dtype in zip(shapes, dtypes))


def _kind_of(thing: Any) -> str:
    facts = thing.metadata
    return _kind(facts.shapes or [facts.shape], facts.dtypes or [facts.dtype])


class ArtesianL2Adapter(NativeConnectorL2Adapter):  # type: ignore[misc]
    """LMCache's own adapter over ArtesianL2, with the kind of each value in its key."""

    def __init__(self, config: dict[str, Any], l1_memory_desc: Any = None) -> None:
        super().__init__(ArtesianL2(**{"dtype": "in each key", **config}), type_name="artesian")
        self._kinds: set[str] = set()  # that there may be values of

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> int:
        kinds = [_kind_of(each) for each in objects]
        self._kinds.update(kinds)
        with self._client.of_kinds(kinds):
            return super().submit_store_task(keys, objects)  # type: ignore[no-any-return]

    def submit_lookup_and_lock_task(self, keys: list[Any], group_layout_descs: dict[int, Any]) -> int:
        kinds = {group: _kind(layout.shapes, layout.dtypes) for group, layout in group_layout_descs.items()}
        self._kinds.update(kinds.values())
        with self._client.of_kinds([kinds.get(key.object_group_id, "") for key in keys]):
            return super().submit_lookup_and_lock_task(keys, group_layout_descs)  # type: ignore[no-any-return]

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> int:
        with self._client.of_kinds([_kind_of(each) for each in objects]):
            return super().submit_load_task(keys, objects)  # type: ignore[no-any-return]

    def delete(self, keys: list[Any]) -> None:
        for kind in sorted(self._kinds):
            with self._client.of_kinds([kind] * len(keys)):
                super().delete(keys)
