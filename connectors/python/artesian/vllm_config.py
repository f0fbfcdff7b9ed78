"""The JSON that vLLM takes as --kv-transfer-config: what `python -m artesian.vllm config` prints. Needs no vLLM."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import artesian


def config_for(options: argparse.Namespace) -> dict[str, Any]:
    artesian.size(options.capacity)  # refused here, not when the engine starts
    store = {"path": options.path, "capacity": options.capacity}
    store |= {name: getattr(options, name) for name in ("weights", "codec") if getattr(options, name)}
    if options.connector:
        config = {"kv_connector": "ArtesianConnector", "kv_connector_module_path": "artesian.vllm_connector"}
        extra = store | ({"memory": options.memory} if options.memory else {})
    else:
        config = {"kv_connector": "OffloadingConnector"}
        extra = {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": artesian.size(options.memory or "4G"),
            "secondary_tiers": [{"type": "ArtesianTier", "module_path": "artesian.vllm", **store}],
        }
    return {**config, "kv_role": "kv_both", "kv_load_failure_policy": "recompute", "kv_connector_extra_config": extra}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m artesian.vllm", description="vLLM's settings for KV on flash.")
    commands = parser.add_subparsers(dest="command", required=True)
    config = commands.add_parser("config", help="print the JSON for --kv-transfer-config")
    config.add_argument("--connector", action="store_true", help="ArtesianConnector, for vLLM on CPUs; else a tier of vLLM's own offloading")
    config.add_argument("--path", required=True, help="folder of the store")
    config.add_argument("--capacity", required=True, help="cap on flash, as 2T")
    config.add_argument("--memory", help="of the primary tier in host memory (4G); with --connector of the store's own (none)")
    config.add_argument("--weights", help="fingerprint of the weights; found by itself where the model's files are")
    config.add_argument("--codec", choices=["exponent"], help="code KV on flash without loss: a third less of BF16")
    try:
        print(json.dumps(config_for(parser.parse_args(arguments))))
    except ValueError as error:
        print(f"artesian.vllm: {error}", file=sys.stderr)
        return 2
    return 0
