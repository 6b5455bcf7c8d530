"""Random small transition requests, of every kind that the format knows.

`random_request(seed)` gives the same request for the same seed: explicit
shards, inline and flat tensor lists with rules, and tiny model configs, over
worlds that grow, shrink, overlap or have nothing in common. Some spread the
data of few ranks over many, so that plans hold multicasts.
"""

import json
import math
import random
from dataclasses import dataclass, field

from layouts import DTYPE_BYTES
from shard_rows import random_rows, spread_rows

MAX_WORLD = 16
DTYPES = ["bf16", "f32", "f16", "f8_e4m3", "u8", "i64"]
OTHER_STATES = ["master", "exp_avg", "exp_avg_sq", "grad"]
FLOATS = ["f32", "bf16", "f16", "f64"]
SIZE_AXES = ["tp", "cp", "ep", "etp", "fsdp", "dp", "pp"]
# Bits of a float's exponent and fraction.
BITS = {"f64": (11, 52), "f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}


@dataclass
class Case:
    """A request; `files` are the model files that it names."""

    request: dict
    model: dict
    files: dict = field(default_factory=dict)


def rounded_to(*way):
    """The dtypes on a value's way that may drop some of its bits."""
    at, lossy = way[0], []
    for dtype in way[1:]:
        holds = zip(BITS[dtype], BITS[at], strict=True)
        if not all(new >= old for new, old in holds):
            lossy.append(dtype)
            at = dtype
    return lossy


def round_alike(source, after, origin, name):
    """Whether a state may be both sent and made from another."""
    sent = rounded_to(source[origin], source[name], after[name])
    return sent == rounded_to(source[origin], after[origin], after[name])


def random_states(rng):
    """A "state" object for both sides."""
    states = {"param": rng.choice(["bf16", "f32", "f16"])}
    for name in rng.sample(OTHER_STATES, rng.randint(0, 3)):
        states[name] = rng.choice(["f32", "bf16"])
    return states


@dataclass
class States:
    """The keys of a request that name states, and those of each side."""

    keys: dict = field(default_factory=dict)
    sides: tuple = (None, None)

    def place(self, layouts):
        """Gives each side its own states, where there are such."""
        for layout, own in zip(layouts, self.sides, strict=True):
            if own and "state" not in self.keys:
                layout["state"] = own


def one_for_both(states):
    return States({"state": states}, (states, states))


def random_side_states(rng, default):
    """The default, the same on both sides, or some of: dtypes that change,
    states that one side lacks, states that may be made from others."""
    kind = rng.choice(["default", "same", "same", "change"])
    if kind == "default":
        return States() if default is None else one_for_both(default)
    if kind == "same":
        return one_for_both(random_states(rng))
    names = ["param", *rng.sample(OTHER_STATES, rng.randint(1, 3))]
    if rng.random() < 0.3:
        names.remove("param")
    source = {name: rng.choice(FLOATS) for name in names}
    after = {
        name: rng.choice([source[name], rng.choice(FLOATS)]) for name in names
    }
    dropped = [name for name in names if rng.random() < 0.25]
    for name in dropped:
        del after[name]
    lacking = [n for n in ("param", *OTHER_STATES) if n not in names]
    derive = {}
    for name in lacking if not after else lacking[: rng.randint(0, 1)]:
        after[name] = rng.choice(FLOATS)
        derive[name] = rng.choice(names)
    for name in set(names) & set(after):
        origin = rng.choice(names)
        free = {name, *derive} & {origin, *derive.values()}
        if not free and (
            origin not in after or round_alike(source, after, origin, name)
        ):
            derive[name] = origin
    keys = {"derive": derive} if derive else {}
    keys |= {"drop": dropped} if dropped else {}
    return States(keys, (source, after))


def random_extra(rng, axes):
    """The "extra" key, most often without any."""
    extra = []
    for number in range(rng.choice([0, 0, 0, 1, 2])):
        entry = {"name": f"extra{number}", "dtype": rng.choice(DTYPES)}
        if rng.random() < 0.7:
            entry["shape"] = [
                rng.randint(1, 5) for _ in range(rng.randint(0, 2))
            ]
        if rng.random() < 0.7:
            entry["per"] = rng.sample(axes, rng.randint(0, min(4, len(axes))))
        extra.append(entry)
    return {"extra": extra} if extra else {}


def random_worlds(rng, sizes):
    """Lists of devices for two worlds: default, overlapping or disjoint."""
    kind = rng.choice(["default", "overlap", "disjoint", "shuffled"])
    if kind == "default":
        return [list(range(size)) for size in sizes]
    if kind == "disjoint":
        pool = rng.sample(range(sum(sizes) + 2), sum(sizes))
        return [pool[: sizes[0]], pool[sizes[0] :]]
    pool = range(max(sizes) + (rng.randint(0, 4) if kind == "overlap" else 0))
    return [rng.sample(pool, size) for size in sizes]


def random_links(rng, devices, per_node):
    """Pairs of devices or nodes whose rate is not that of their level."""

    def end():
        device = rng.choice(devices)
        return rng.choice([device, f"node:{device // per_node}"])

    return [
        {"from": end(), "to": end(), "GBps": rng.choice([5, 12.5, 50, 100])}
        for _ in range(rng.randint(1, 4))
    ]


def slow_links(rng, cluster, devices):
    """Some pairs are so slow that relays help, few bytes as there are."""
    cluster["relays"] = True
    cluster["links"] = cluster.get("links", []) + [
        {
            "from": rng.choice(devices),
            "to": rng.choice(devices),
            "GBps": rng.choice([1e-5, 1e-4, 0.001, 0.05]),
        }
        for _ in range(rng.randint(1, 2 * len(devices)))
    ]


def finish(rng, request, layouts):
    """Adds devices, cluster and memory to a request with two layouts."""
    worlds = random_worlds(rng, [layout["world"] for layout in layouts])
    for layout, devices in zip(layouts, worlds, strict=True):
        if devices != list(range(len(devices))):
            layout["devices"] = devices
    request["source"], request["destination"] = layouts
    request["cluster"] = {
        "devices_per_node": rng.choice([1, 2, 4, 8]),
        "intra_node_GBps": rng.choice([200, 400]),
        "inter_node_GBps": 25,
        "latency_us": rng.choice([0, 10]),
    }
    if rng.random() < 0.25:
        per_node = request["cluster"]["devices_per_node"]
        nics = [n for n in (1, 2, 4) if n <= per_node]
        request["cluster"]["nics_per_node"] = rng.choice(nics)
    if rng.random() < 0.25:
        devices = sorted({*worlds[0], *worlds[1]})
        per_node = request["cluster"]["devices_per_node"]
        request["cluster"]["links"] = random_links(rng, devices, per_node)
    mode = rng.choice(["rollback", "flat"])
    # Small limits put the bound of flat mode to the test.
    sizes = ["16KiB", "64KiB", "1MiB", "1GiB"]
    if mode == "flat":
        sizes = ["2KiB", "4KiB", "8KiB", "16KiB", "1MiB"]
    request["memory"] = {"staging": rng.choice(sizes), "mode": mode}
    if mode == "flat" and rng.random() < 0.5:
        request["memory"]["granularity"] = rng.choice(["page", "tensor"])
        if request["memory"]["granularity"] == "page":
            request["memory"]["page"] = rng.choice([64, "256", "1KiB"])
        share_storages(rng, request)
    if rng.random() < 0.2:
        request["cluster"]["pxn"] = True
    if mode == "rollback" and rng.random() < 0.5:
        slow_links(rng, request["cluster"], sorted({*worlds[0], *worlds[1]}))
    if rng.random() < 0.2:
        request["cluster"]["launch_us"] = rng.choice([0.5, 5, 50])
    if rng.random() < 0.2:
        request["cluster"]["channels_per_peer"] = rng.choice([1, 2, 8])
        if rng.random() < 0.5:
            request["cluster"]["inter_channel_GBps"] = rng.choice([3, 9.5])
    ask_for_collectives(request)
    count_nccl(request)
    return request


def count_nccl(request):
    """Every so often. Drawn from the request, so that all else stays."""
    rng = random.Random("nccl" + json.dumps(request, sort_keys=True))
    if rng.random() < 0.15:
        request["memory"]["communicator"] = "nccl"


def ask_for_collectives(request):
    """Every so often. Drawn from the request, so that all else stays."""
    rng = random.Random(json.dumps(request, sort_keys=True))
    if request["memory"]["mode"] == "rollback" and rng.random() < 0.4:
        request["cluster"]["collectives"] = rng.choice(
            ["auto", "messages", "library", "library", "library"]
        )
        for key in ("multicast_us", "copy_engine_us"):
            if rng.random() < 0.3:
                request["cluster"][key] = rng.choice([0.5, 4])


def share_storages(rng, request):
    """Some tensors share storages, by rules that say nothing else."""
    groups = [{"match": "*", "storage": "all"}]
    groups += [
        {"match": f"*{end}", "storage": f"*{end}"} for end in ("0*", "t", "1")
    ]
    chosen = rng.sample(groups, rng.randint(0, 2))
    if chosen:
        request["rules"] = request.get("rules", []) + chosen


# Explicit shards.


def random_shards(rng, tensors, states):
    world = rng.randint(1, 8)
    rows = []
    for tensor in tensors:
        own = tensor.get("state", states) or ()
        per_state = len(own) > 1 and rng.random() < 0.4
        for state in own if per_state else [None]:
            for row in random_rows(rng, tensor["shape"], world):
                extra = {"state": state} if state else {}
                rows.append({"tensor": tensor["name"]} | row | extra)
    rng.shuffle(rows)
    return {"world": world, "shards": rows}


def random_tensors(rng):
    tensors = []
    for number in range(rng.randint(1, 5)):
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        shape = [rng.randint(1, 12) for _ in range(rank)]
        tensors.append(
            {
                "name": f"t{number}.w",
                "shape": shape,
                "dtype": rng.choice(DTYPES),
            }
        )
    return tensors


def give_own_states(rng, tensors):
    """States of its own for some of the tensors, on both sides each."""
    for tensor in tensors:
        if rng.random() < 0.5:
            names = rng.sample(["param", *OTHER_STATES], 2)
            tensor["state"] = {n: rng.choices(FLOATS, k=2) for n in names}


def shards_case(rng):
    tensors, states = random_tensors(rng), random_side_states(rng, None)
    if "derive" not in states.keys and rng.random() < 0.3:
        give_own_states(rng, tensors)
    model = {"tensors": tensors}
    request = {"model": model} | states.keys | random_extra(rng, ["rank"])
    layouts = [random_shards(rng, tensors, own) for own in states.sides]
    states.place(layouts)
    return Case(finish(rng, request, layouts), model)


def spread_case(rng):
    """Few ranks' data for many: pieces of some size, so that small staging
    cuts them."""
    tensors = [
        {
            "name": f"t{number}.w",
            "shape": [rng.randint(1, 8), rng.choice([1, 30, 200, 600])],
            "dtype": rng.choice(DTYPES),
        }
        for number in range(rng.randint(1, 3))
    ]
    layouts = []
    for world, rows_of in (
        (rng.randint(1, 4), random_rows),
        (rng.randint(3, 12), spread_rows),
    ):
        rows = [
            {"tensor": tensor["name"]} | row
            for tensor in tensors
            for row in rows_of(rng, tensor["shape"], world)
        ]
        layouts.append({"world": world, "shards": rows})
    model = {"tensors": tensors}
    return Case(finish(rng, {"model": model}, layouts), model)


# Parallel sizes.


def random_sizes(rng, num_layers, num_experts=0, fsdp=False):
    """A layout by parallel sizes that fits a model of so many layers."""
    while True:
        sizes = {
            "tp": rng.choice([1, 1, 2, 3, 4]),
            "pp": rng.choice([1, 1, 2, 3, 4]),
            "dp": rng.choice([1, 1, 2, 3, 4]),
            "cp": rng.choice([1, 1, 1, 2]),
            "fsdp": rng.choice([1, 2, 3]) if fsdp else 1,
        }
        layout = {axis: size for axis, size in sizes.items() if size > 1}
        layout["world"] = math.prod(sizes.values())
        fits = layout["world"] <= MAX_WORLD
        if fits and num_experts:
            fits = add_expert_sizes(rng, layout, num_experts)
        if fits and add_stages(rng, layout, num_layers):
            return add_zero_and_order(rng, layout, num_experts)


def add_expert_sizes(rng, layout, num_experts):
    """Chooses ep and etp; false when they do not fit the world."""
    ep, etp = rng.choice([1, 2, 3, 4]), rng.choice([None, 1, 2])
    if ep > 1:
        layout["ep"] = ep
    if etp is not None and ep > 1:
        layout["etp"] = etp
    grid = ep * layout.get("etp", layout.get("tp", 1)) * layout.get("pp", 1)
    return num_experts % ep == 0 and layout["world"] % grid == 0


def add_stages(rng, layout, num_layers):
    """Chooses vpp and pp_layers; false when the layers cannot be cut."""
    pp = layout.get("pp", 1)
    vpp = rng.choice([1, 1, 2]) if pp > 1 else 1
    if vpp > 1:
        layout["vpp"] = vpp
    blocks = pp * vpp
    if num_layers % blocks or (pp > 1 and rng.random() < 0.3):
        if num_layers < blocks:
            return False
        if rng.random() < 0.2:  # stages without layers too
            cuts = sorted(rng.choices(range(num_layers + 1), k=blocks - 1))
        else:
            cuts = sorted(rng.sample(range(1, num_layers), blocks - 1))
        ends = [0, *cuts, num_layers]
        layout["pp_layers"] = [
            b - a for a, b in zip(ends, ends[1:], strict=False)
        ]
    return True


def add_zero_and_order(rng, layout, num_experts):
    if rng.random() < 0.4 and "fsdp" not in layout:
        layout["zero"] = 1
        if rng.random() < 0.8:
            layout["bucket_size"] = rng.choice([100, 500, 2000, 10000])
    # Without ep Megatron-Core keeps the optimizer state of experts with that of
    # dense tensors, which makes sense only where their tp groups agree.
    regular = num_experts and "ep" not in layout and "cp" in layout
    if rng.random() < 0.3 and not regular:
        axes = ["tp", "cp", "ep", "fsdp", "dp"]
        rng.shuffle(axes)
        # Dense and expert grids have one pipeline only while pp is last.
        last = 5 if num_experts else rng.randint(0, 5)
        layout["order"] = "-".join([*axes[:last], "pp", *axes[last:]])
    return layout


def common_multiple(layouts):
    sizes = [layout.get(key, 1) for layout in layouts for key in ("tp", "etp")]
    return math.lcm(*sizes)


def layer_tensors(rng, unit, num_experts):
    """(name, shape, rule) of the tensors of one layer; every dim that tensor
    parallelism cuts is a multiple of `unit`."""
    width, hidden = unit * rng.randint(1, 3), rng.randint(1, 6)
    found = [
        ("norm.weight", [hidden], {"replicate": True}),
        ("attn.proj.weight", [hidden, unit * 2], {"tp": 1}),
    ]
    if rng.random() < 0.5:
        blocks = [unit * rng.randint(1, 3) for _ in range(3)]
        rule = {"tp": 0, "blocks": blocks}
        found.append(("attn.qkv.weight", [sum(blocks), hidden], rule))
    if num_experts:
        for e in range(num_experts):
            up = {"tp": 0, "blocks": [width, width], "ep": True}
            found.append((f"experts.{e}.up.weight", [2 * width, hidden], up))
            down = {"tp": 1, "ep": True}
            found.append((f"experts.{e}.down.weight", [hidden, width], down))
    else:
        found.append(("mlp.up.weight", [width, hidden], {"tp": 0}))
        found.append(("mlp.down.bias", [hidden], {"tp": None}))
    return found


def rule_model(rng, layouts, num_layers, num_experts):
    """(tensors, rules) of a flat list with layers and maybe experts."""
    unit = common_multiple(layouts)
    layer = layer_tensors(rng, unit, num_experts)
    hidden = layer[0][1][0]
    rules = []
    for name, _, rule in layer:
        pattern = "*." + name.replace("experts.0.", "experts.*.")
        if not name.startswith("experts.") or ".0." in name:
            rules.append({"match": pattern} | rule)
    rules.append({"match": "embed.*", "tp": 0})
    if rng.random() < 0.3:
        rules.append({"match": "head.bias", "tp": None, "stage": "first"})
    rules.append({"match": "*", "replicate": True})
    prefix = rng.choice(["model.layers.{}.", "h.{}.", "net.blocks.{}."])
    named = [("embed.weight", [unit * rng.randint(1, 4), hidden])]
    for number in range(num_layers):
        named += [(prefix.format(number) + n, s) for n, s, _ in layer]
    named += [("final.weight", [hidden]), ("head.bias", [rng.randint(1, 9)])]
    dtype = rng.choice(["bf16", "f32", "f8_e4m3"])
    tensors = [
        {"name": n, "shape": s, "dtype": dtype.upper()} for n, s in named
    ]
    return tensors, rules


def rules_case(rng):
    """A list of tensors cut by rules; one side may be explicit shards."""
    num_layers = rng.randint(2, 6)
    num_experts = rng.choice([0, 0, 2, 4, 6, 12])
    fsdp = not num_experts and rng.random() < 0.3
    layouts = [
        random_sizes(rng, num_layers, num_experts, fsdp) for _ in range(2)
    ]
    tensors, rules = rule_model(rng, layouts, num_layers, num_experts)
    states = random_side_states(rng, None)
    if rng.random() < 0.25 and len(tensors) < 40:
        side = rng.randrange(2)
        layouts[side] = random_shards(rng, tensors, states.sides[side])
    states.place(layouts)
    axes = [*SIZE_AXES, *(["rank"] if "shards" in str(layouts) else [])]
    request = {"rules": rules} | states.keys | random_extra(rng, axes)
    if rng.random() < 0.5:
        model = {"tensors": tensors}
        return Case(finish(rng, {"model": model} | request, layouts), model)
    model = {
        t["name"]: {"shape": t["shape"], "dtype": t["dtype"]} for t in tensors
    }
    request = {"model": "model.json"} | request
    return Case(finish(rng, request, layouts), model, {"model.json": model})


def tiny_config(rng, kind, unit, num_layers, num_experts):
    """A config.json in which every size cut by `unit` is a multiple of it."""
    heads, head_dim = unit * rng.randint(1, 2), rng.choice([1, 2])
    if kind == "gpt2":
        return {
            "model_type": kind, "n_embd": heads * head_dim,
            "n_layer": num_layers, "n_head": heads,
            "n_inner": unit * rng.randint(1, 3),
            "n_positions": rng.randint(1, 6), "vocab_size": rng.randint(3, 40),
            "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        }  # fmt: skip
    config = {
        "model_type": kind, "hidden_act": "silu", "attention_bias": False,
        "hidden_size": rng.randint(1, 8), "num_hidden_layers": num_layers,
        "num_attention_heads": heads, "head_dim": head_dim,
        "num_key_value_heads": unit,
        "intermediate_size": unit * rng.randint(1, 3),
        "vocab_size": rng.randint(3, 60), "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    if kind == "deepseek_v3":
        config |= {
            "q_lora_rank": rng.randint(1, 4), "kv_lora_rank": rng.randint(1, 4),
            "qk_nope_head_dim": 1, "qk_rope_head_dim": 1, "v_head_dim": 1,
            "moe_intermediate_size": unit * rng.randint(1, 2),
            "n_routed_experts": num_experts, "n_shared_experts": 1,
            "num_experts_per_tok": 1, "moe_layer_freq": 1,
            "first_k_dense_replace": rng.randint(0, 2),
            "num_nextn_predict_layers": rng.randint(0, 1),
        }  # fmt: skip
        config["hidden_size"] = unit * rng.randint(1, 2)
    if kind == "qwen3_moe":
        config |= {
            "moe_intermediate_size": unit * rng.randint(1, 2),
            "num_experts": num_experts, "num_experts_per_tok": 1,
            "decoder_sparse_step": 1, "mlp_only_layers": [],
        }  # fmt: skip
    return config


def config_case(rng):
    kind = rng.choice(["llama", "qwen3_moe", "gpt2", "deepseek_v3"])
    num_layers = rng.randint(2, 5)
    num_experts = 0 if kind in ("llama", "gpt2") else rng.choice([2, 4, 6])
    fsdp = not num_experts and rng.random() < 0.3
    layouts = [
        random_sizes(rng, num_layers, num_experts, fsdp) for _ in range(2)
    ]
    unit = common_multiple(layouts)
    model = tiny_config(rng, kind, unit, num_layers, num_experts)
    states = random_side_states(rng, {"param": "bf16"})
    states.place(layouts)
    request = {
        "model": "config.json",
        "vocab_multiple": rng.choice([1, 4, 8]),
    }
    request |= states.keys | random_extra(rng, SIZE_AXES)
    return Case(finish(rng, request, layouts), model, {"config.json": model})


def random_request(seed):
    rng = random.Random(seed)
    kinds = [shards_case, spread_case, rules_case, rules_case, config_case]
    return rng.choice(kinds)(rng)


assert set(DTYPES) <= set(DTYPE_BYTES)
