"""Known frameworks: what each rank of a side holds, against their own rules.

Each own tensor is gathered by numpy from element numbers of Megatron-Core's
tensors, as converters between the frameworks do it (a reshape by groups of key
and value heads), cut as the framework cuts it, and compared with what the
plan's programs say that they store. Names and shapes of Hugging Face's side are
those of the model that transformers builds on `meta`, where it is installed.
Every byte is run and checked, wire bytes are at the lower bound.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from plan_tools import Tools, print_closing_line
from random_views import PADDING, members, own_name, stored

ROOT = Path(__file__).resolve().parents[2]
STATE = {"param": "bf16", "master": "f32"}
MEGATRON = "decoder.layers.{}."


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


class Truth:
    """Full tensors of a model by a framework's names: each with the name of
    the model's tensor, and element numbers of that."""

    def __init__(self, config):
        self.config = c = config
        self.hidden = c["hidden_size"]
        self.heads = c["num_attention_heads"]
        self.groups = c["num_key_value_heads"]
        self.dim = c.get("head_dim", self.hidden // self.heads)
        self.experts = c.get("num_experts", 0)
        self.ffn = c.get("moe_intermediate_size" if self.experts else
                         "intermediate_size")  # fmt: skip

    def qkv(self):
        """q, k and v as element numbers of linear_qkv."""
        per = self.heads // self.groups
        all_rows = numbers(
            (self.heads + 2 * self.groups) * self.dim, self.hidden
        )
        by_group = all_rows.reshape(self.groups, per + 2, self.dim, self.hidden)
        parts = by_group[:, :per], by_group[:, per], by_group[:, per + 1]
        return [part.reshape(-1, self.hidden) for part in parts]

    def layer(self, framework, n):
        m, h = MEGATRON.format(n), f"model.layers.{n}."
        hidden, width = self.hidden, self.heads * self.dim
        q, k, v = self.qkv()
        qkv = m + "self_attention.linear_qkv."
        yield (
            h + "input_layernorm.weight",
            qkv + "layer_norm_weight",
            numbers(hidden),
        )
        yield (
            h + "self_attn.o_proj.weight",
            m + "self_attention.linear_proj.weight",
            numbers(hidden, width),
        )
        if framework == "huggingface":
            for name, part in (("q", q), ("k", k), ("v", v)):
                yield h + f"self_attn.{name}_proj.weight", qkv + "weight", part
        else:
            fused = np.concatenate([q, k, v])
            yield h + "self_attn.qkv_proj.weight", qkv + "weight", fused
        if self.config["model_type"].startswith("qwen3"):
            for name in "qk":
                yield (
                    h + f"self_attn.{name}_norm.weight",
                    m + f"self_attention.{name}_layernorm.weight",
                    numbers(self.dim),
                )
        norm = h + "post_attention_layernorm.weight"
        if not self.experts:
            yield norm, m + "mlp.linear_fc1.layer_norm_weight", numbers(hidden)
            yield from self.dense(framework, m + "mlp.", h + "mlp.")
        else:
            yield norm, m + "pre_mlp_layernorm.weight", numbers(hidden)
            yield from self.sparse(framework, m + "mlp.", h + "mlp.")

    def dense(self, framework, m, h):
        fc1 = numbers(2 * self.ffn, self.hidden)
        if framework == "huggingface":
            yield (
                h + "gate_proj.weight",
                m + "linear_fc1.weight",
                fc1[: self.ffn],
            )
            yield h + "up_proj.weight", m + "linear_fc1.weight", fc1[self.ffn :]
        else:
            yield h + "gate_up_proj.weight", m + "linear_fc1.weight", fc1
        fc2 = numbers(self.hidden, self.ffn)
        yield h + "down_proj.weight", m + "linear_fc2.weight", fc2

    def sparse(self, framework, m, h):
        router = numbers(self.experts, self.hidden)
        yield h + "gate.weight", m + "router.weight", router
        names = {
            "huggingface": ("gate_up_proj", "down_proj"),
            "vllm": ("w13_weight", "w2_weight"),
        }[framework]
        shapes = (2 * self.ffn, self.hidden), (self.hidden, self.ffn)
        for i, (name, shape) in enumerate(zip(names, shapes, strict=True)):
            yield (
                h + "experts." + name,
                m + f"experts.linear_fc{i + 1}.weight",
                numbers(self.experts, *shape),
            )

    def of(self, framework):
        vocab = numbers(self.config["vocab_size"], self.hidden)
        if framework == "vllm":  # rows up to a multiple of 64
            rest = -len(vocab) % 64
            vocab = np.pad(vocab, ((0, rest), (0, 0)), constant_values=PADDING)
        out = {
            "model.embed_tokens.weight": (
                "embedding.word_embeddings.weight",
                vocab,
            ),
            "lm_head.weight": ("output_layer.weight", vocab),
            "model.norm.weight": (
                "decoder.final_layernorm.weight",
                numbers(self.hidden),
            ),
        }
        for n in range(self.config["num_hidden_layers"]):
            for own, base, part in self.layer(framework, n):
                out[own] = base, part
        return out

    def blocks(self, name):
        """Sizes of packed parts along the rows that are cut one by one."""
        if "qkv_proj" in name:
            keys = self.groups * self.dim
            return [self.heads * self.dim, keys, keys]
        if "gate_up_proj" in name or "w13" in name:
            return [self.ffn, self.ffn]
        return None


ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "qkv_proj",
        "gate_up_proj", "embed_tokens", "lm_head", "w13")  # fmt: skip
COLUMNS = "o_proj", "down_proj", "w2_weight"


def local(truth, name, full, layout, rank):
    """What a rank has of a tensor: ranks count tp first, then dp."""
    sparse = ".experts." in name
    tp = (
        layout.get("etp", layout.get("tp", 1))
        if sparse
        else layout.get("tp", 1)
    )
    ep = layout.get("ep", 1)
    part = full
    dim = 1 if sparse else 0
    if sparse and ep > 1:
        part = np.array_split(part, ep, axis=0)[rank // tp % ep]
    if any(word in name for word in COLUMNS):
        return np.array_split(part, tp, axis=dim + 1)[rank % tp]
    if not any(word in name for word in ROWS):
        return part
    cuts = np.cumsum(truth.blocks(name) or [])[:-1]
    blocks = np.split(part, cuts, axis=dim)
    own = []
    for i, block in enumerate(blocks):
        # Key and value heads that are fewer than the ranks are shared.
        shared = max(1, tp // truth.groups) if "qkv" in name and i else 1
        pieces = np.array_split(block, tp // shared, axis=dim)
        own.append(pieces[rank % tp // shared])
    return np.concatenate(own, axis=dim)


def transformers_shapes(config):
    """{name: shape} of Hugging Face's model; None without transformers."""
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError:
        return None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    return {n: tuple(p.shape) for n, p in model.named_parameters()}


def compare(truth, framework, layout, side, programs, shapes):
    full = truth.of(framework)
    if framework == "huggingface":
        live = transformers_shapes(truth.config)
        if live is None:
            print("transformers is not installed: names are not compared")
        else:
            assert {n: part.shape for n, (_, part) in full.items()} == live
    for program in programs:
        rank = program[f"{side}_rank"]
        if rank < 0:
            continue
        found = {
            own_name(shard): stored(shard, shapes)
            for each in program[side]
            for shard in members(each)
            if "param" in shard["states"]
        }
        assert found.keys() == full.keys(), found.keys() ^ full.keys()
        for name, (_, part) in full.items():
            want = local(truth, name, part, layout, rank).ravel()
            assert np.array_equal(found[name], want), (name, rank)


def base_shapes(truth):
    """Shapes of the model's tensors."""
    c, shapes = truth.config, {}
    for base, part in truth.of("huggingface").values():
        shapes[base] = part.shape
    rows = (truth.heads + 2 * truth.groups) * truth.dim
    for n in range(c["num_hidden_layers"]):
        m = MEGATRON.format(n)
        shapes[m + "self_attention.linear_qkv.weight"] = (rows, truth.hidden)
        if not truth.experts:
            shapes[m + "mlp.linear_fc1.weight"] = (2 * truth.ffn, truth.hidden)
    return shapes


CASES = [
    ("llama-tiny", {"world": 4, "tp": 2, "pp": 2},
     {"world": 2, "tp": 2, "framework": "huggingface"}),
    ("llama-tiny", {"world": 4, "tp": 4, "zero": 0},
     {"world": 4, "tp": 4, "framework": "vllm"}),
    ("llama-tiny", {"world": 2, "tp": 2, "framework": "vllm"},
     {"world": 1, "framework": "huggingface"}),
    ("qwen3-moe-tiny",
     {"world": 8, "tp": 2, "dp": 2, "pp": 2, "ep": 4, "etp": 1, "zero": 1},
     {"world": 2, "tp": 2, "framework": "huggingface"}),
    ("qwen3-moe-tiny", {"world": 4, "tp": 4, "ep": 2, "etp": 2},
     {"world": 2, "tp": 2, "framework": "vllm"}),
    ("qwen3-moe-tiny", {"world": 2, "dp": 2, "ep": 2, "framework": "megatron"},
     {"world": 4, "tp": 2, "dp": 2, "ep": 4, "etp": 1, "framework": "vllm"}),
    ("qwen3-moe-tiny", {"world": 4, "tp": 2, "pp": 2},
     {"world": 8, "tp": 8, "framework": "vllm"}),
    ("llama-tiny", {"world": 8, "tp": 8, "framework": "vllm"},
     {"world": 2, "tp": 2}),
    ("qwen3-moe-tiny", {"world": 2, "tp": 2, "framework": "vllm"},
     {"world": 8, "tp": 2, "dp": 2, "pp": 2, "ep": 4, "etp": 1, "zero": 1}),
]  # fmt: skip


def check(tools, model, source, destination, folder):
    path = ROOT / "examples" / "models" / f"{model}.json"
    truth = Truth(json.loads(path.read_text()))
    request = {
        "model": str(path),
        "state": STATE,
        "source": source,
        "destination": destination,
    }
    asked, plan = folder / "request.json", folder / "plan.dtplan"
    asked.write_text(json.dumps(request))
    tools.compile(asked, plan)
    tools.output("dt-plan", "verify", plan)
    moved = tools.json("dt-plan", "inspect", plan, "--json")["bytes"]
    assert moved["wire"] == moved["wire_lower_bound"], moved
    run = tools.json("dt-run", plan, "--check", "--json")
    assert run["ok"] and run["mismatches"] == 0, run
    devices = range(max(source["world"], destination["world"]))
    programs = [
        tools.json("dt-plan", "dump", plan, "--rank", device, "--json")
        for device in devices
    ]
    shapes = base_shapes(truth)
    for side, layout in (("source", source), ("destination", destination)):
        framework = layout.get("framework", "megatron")
        if framework != "megatron":
            compare(truth, framework, layout, side, programs, shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    options = parser.parse_args()
    failed = 0
    for model, source, destination in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(
                    Tools(options.bin), model, source, destination, Path(folder)
                )
            except Exception as error:
                failed += 1
                text = str(error)[:2000]
                print(
                    f"{model} {source} -> {destination}: {type(error)} {text}"
                )
    return print_closing_line(len(CASES) - failed, failed)


if __name__ == "__main__":
    raise SystemExit(main())
