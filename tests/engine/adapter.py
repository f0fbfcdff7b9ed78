"""Writes a LoRA adapter for a GGUF model: what llama.cpp's --lora reads. Weights are random, from a seed.

Only as much of GGUF (version 3, little endian) as that needs: metadata is stepped over, but for the architecture.
"""

import array
import math
import random
import struct

SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes, by type of value
STRING, ARRAY, FLOAT32, F32 = 8, 9, 6, 0
ALIGNMENT = 32


class Reader:
    def __init__(self, file):
        self.file = file

    def number(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize(code)))[0]

    def string(self):
        return self.file.read(self.number("Q")).decode(errors="replace")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.file.read(SCALARS[kind])


def read_shapes(path):
    """The architecture, and the shape of each tensor by name."""
    with open(path, "rb") as file:
        reader = Reader(file)
        if file.read(4) != b"GGUF" or reader.number("I") != 3:
            raise ValueError(f"{path}: not GGUF version 3")
        tensors, values = reader.number("Q"), reader.number("Q")
        architecture = ""
        for _ in range(values):
            key, value = reader.string(), reader.value(reader.number("I"))
            if key == "general.architecture":
                architecture = value
        shapes = {}
        for _ in range(tensors):
            name = reader.string()
            shapes[name] = [reader.number("Q") for _ in range(reader.number("I"))]
            reader.number("I"), reader.number("Q")
        return architecture, shapes


def text(string):
    data = string.encode()
    return struct.pack("<Q", len(data)) + data


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_adapter(base, path, wanted, rank=4, seed=11):
    """Adapts every tensor of `base` whose name contains one of `wanted`; returns how many that are."""
    architecture, shapes = read_shapes(base)
    source = random.Random(seed)
    tensors = []
    for name, shape in sorted(shapes.items()):
        if len(shape) < 2 or not any(part in name for part in wanted):
            continue
        for suffix, dims in ((".lora_a", [shape[0], rank]), (".lora_b", [rank, shape[1]])):
            dims += shape[2:]
            spread = 1 / math.sqrt(shape[0])
            values = array.array("f", (source.uniform(-spread, spread) for _ in range(math.prod(dims))))
            tensors.append((name + suffix, dims, values.tobytes()))
    values = [text("general.type") + struct.pack("<I", STRING) + text("adapter"),
              text("general.architecture") + struct.pack("<I", STRING) + text(architecture),
              text("adapter.type") + struct.pack("<I", STRING) + text("lora"),
              text("adapter.lora.alpha") + struct.pack("<If", FLOAT32, 8.0)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values)
    offset = 0
    for name, dims, data in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, F32, offset)
        offset += len(data) + len(padding(len(data)))
    with open(path, "wb") as file:
        file.write(head + padding(len(head)))
        for _, _, data in tensors:
            file.write(data + padding(len(data)))
    return len(tensors) // 2
