"""A model as the engines of others want it: a GGUF file of the llama family as a folder of Hugging Face's, in BF16.

usage: model.py FILE.gguf FOLDER [--noise SHARE | --small | --adapter SEED]

Run by the python that has vLLM. The folder appears whole or not at all. With --noise every matrix is changed by normal noise of
that share of its deviation: other weights that look alike. --small: a random model of four layers with that tokenizer, whose heads two ranks
can share. --adapter: a random LoRA adapter for the model.
"""

import argparse
import json
import pathlib
import re
import shutil
import tempfile

import gguf
import numpy
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def theirs(name: str) -> str:
    """A tensor's name there: blk.3.attn_q.weight is model.layers.3.self_attn.q_proj.weight."""
    inner = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if inner:
        return f"model.layers.{inner[1]}.{INNER[inner[2]]}.weight"
    return f"{OUTER[name.removesuffix('.weight')]}.weight"


def halves(matrix: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Rows of a rotated projection: llama.cpp keeps pairs side by side, Hugging Face the first halves before the second."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors(reader: gguf.GGUFReader, heads: dict[str, int], noise: float) -> dict[str, torch.Tensor]:
    generator = numpy.random.default_rng(5)
    found = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            values = halves(values, heads[kind])
        if noise and values.ndim == 2:
            values = values + generator.normal(0, noise * values.std(), values.shape).astype(numpy.float32)
        found[theirs(tensor.name)] = torch.from_numpy(numpy.ascontiguousarray(values)).to(torch.bfloat16)
    return found


def convert(source: pathlib.Path, folder: pathlib.Path, noise: float) -> None:
    reader = gguf.GGUFReader(source)

    def field(name: str):
        return reader.fields[name].contents()

    llama = {name.removeprefix("llama."): field(name) for name in reader.fields if name.startswith("llama.")}
    heads = {"attn_q": llama["attention.head_count"], "attn_k": llama["attention.head_count_kv"]}
    weights = tensors(reader, heads, noise)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": llama["embedding_length"],
        "intermediate_size": llama["feed_forward_length"],
        "num_hidden_layers": llama["block_count"],
        "num_attention_heads": heads["attn_q"],
        "num_key_value_heads": heads["attn_k"],
        "head_dim": llama["rope.dimension_count"],
        "vocab_size": llama["vocab_size"],
        "max_position_embeddings": llama["context_length"],
        "rms_norm_eps": llama["attention.layer_norm_rms_epsilon"],
        "rope_theta": llama["rope.freq_base"],
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def small(source: pathlib.Path, folder: pathlib.Path) -> None:
    reader = gguf.GGUFReader(source)
    words = int(reader.fields["llama.vocab_size"].contents())
    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=words, max_position_embeddings=2048, tie_word_embeddings=True, initializer_range=0.2)
    torch.manual_seed(5)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def adapter(source: pathlib.Path, folder: pathlib.Path, seed: int) -> None:
    reader = gguf.GGUFReader(source)
    generator, rank, found = torch.Generator().manual_seed(seed), 4, {}
    for tensor in reader.tensors:
        if tensor.name.split(".")[-2] not in ("attn_q", "attn_v"):
            continue
        name = f"base_model.model.{theirs(tensor.name).removesuffix('.weight')}"
        columns, rows = (int(count) for count in tensor.shape)
        for part, shape in (("A", (rank, columns)), ("B", (rows, rank))):
            found[f"{name}.lora_{part}.weight"] = torch.randn(shape, generator=generator).mul(0.05).to(torch.bfloat16)
    save_file(found, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "target_modules": ["q_proj", "v_proj"],
              "bias": "none", "lora_dropout": 0.0}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--noise", type=float, default=0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--adapter", type=int)
    options = parser.parse_args()
    if options.folder.exists():
        return
    options.folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = pathlib.Path(tempfile.mkdtemp(dir=options.folder.parent))
    try:
        if options.small:
            small(options.source, fresh)
        elif options.adapter is not None:
            adapter(options.source, fresh, options.adapter)
        else:
            convert(options.source, fresh, options.noise)
        fresh.rename(options.folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    main()
