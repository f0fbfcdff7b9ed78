"""Blocks into a store and back, waited for and awaited: python store.py FOLDER"""

import asyncio
import sys

import artesian

folder = sys.argv[1] if len(sys.argv) > 1 else "."
artesian.create(folder, "64M", segment="2M", block_max="1M")
with artesian.Store(folder, memory="8M") as store:
    space = store.namespace(weights="sha256:of the model's files", dtype="bf16", block_tokens=16)
    keys = [b"hash of tokens 0 to 15", b"hash of tokens 0 to 31"]
    blocks = [b"keys and values of 16 tokens", b"and of 16 more"]
    space.put(keys, blocks, parents=[None, keys[0]], hints=[artesian.Hints(tokens=16, position=at) for at in (0, 1)])
    buffers = [bytearray(len(block)) for block in blocks]
    print(space.longest_prefix(keys), "blocks of the prefix are there")
    print([outcome.name for outcome in space.get(keys, buffers)], [bytes(buffer).decode() for buffer in buffers])
    print([outcome.name for outcome in asyncio.run(space.aget([b"another"], [bytearray(1)]))])
