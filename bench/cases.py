"""The benchmark set: transitions that other systems publish or stumble over.

A case is a request (docs/Request.md) and where it comes from. Model files of
examples/models are named by their stem; models that no example needs are given
here in full. Every case uses the same cluster unless it says otherwise: eight
devices to a node, 200 GB/s inside, one 25 GB/s NIC per device, 10 us.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "examples" / "models"

CLUSTER = {
    "devices_per_node": 8,
    "intra_node_GBps": 200,
    "inter_node_GBps": 25,
    "latency_us": 10,
}
TRAINING = {
    "param": "bf16",
    "master": "f32",
    "exp_avg": "f32",
    "exp_avg_sq": "f32",
}
OPTIMIZER = {"master": "f32", "exp_avg": "f32", "exp_avg_sq": "f32"}
WEIGHTS = {"param": "bf16"}


def gpt3(layers, hidden, heads):
    return {
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "tie_word_embeddings": True,
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_inner": 4 * hidden,
        "n_positions": 2048,
        "vocab_size": 50257,
    }


def llama(layers, hidden, heads, ffn):
    return {
        "model_type": "llama",
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": 32000,
    }


@dataclass
class Case:
    name: str
    model: object  # stem in examples/models, or a Hugging Face config
    source: dict
    destination: dict
    state: dict = field(default_factory=lambda: TRAINING)
    cluster: dict = field(default_factory=lambda: CLUSTER)
    why: str = ""
    published: str = ""  # what its authors measured
    memory: dict = field(default_factory=dict)  # where it is its own

    def request(self, model_path, staging="1GiB", mode="rollback", **memory):
        memory = {"staging": staging, "mode": mode, **memory, **self.memory}
        return {
            "model": str(model_path),
            "state": self.state,
            "source": self.source,
            "destination": self.destination,
            "cluster": self.cluster,
            "memory": memory,
        }

    def write(self, folder, **memory):
        """Path of the request, in a folder that takes its model too."""
        model = MODELS / f"{self.model}.json"
        if isinstance(self.model, dict):
            model = folder / f"{self.name}-model.json"
            model.write_text(json.dumps(self.model))
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(self.request(model, **memory)))
        return path


def sizes(world, **parallel):
    return {"world": world, **parallel}


def at(first, world, **parallel):
    """The same on `world` devices from `first` on."""
    return {
        "world": world,
        **parallel,
        "devices": list(range(first, first + world)),
    }


Q235_UNEVEN = [24, 23, 23, 24]
DS_PP4 = [15, 15, 15, 16]
DS_PP8 = [6, 8, 8, 8, 8, 8, 8, 7]
DS_PP16 = [3] + [4] * 14 + [2]

REFERENCE = [
    Case(
        "L70-a",
        "llama3-70b",
        sizes(128, tp=8, pp=4, dp=4, zero=1),
        sizes(128, tp=8, pp=2, dp=8, zero=1),
        why="PP and DP move, ZeRO-1 bucket borders shift",
    ),
    Case(
        "L70-b",
        "llama3-70b",
        sizes(128, tp=8, pp=4, dp=4, zero=1),
        sizes(96, tp=8, pp=4, dp=3, zero=1),
        why="a quarter of the devices leave, dp 3",
    ),
    Case(
        "L70-c",
        "llama3-70b",
        sizes(32, tp=8, pp=4),
        sizes(32, tp=4, pp=4, dp=2),
        why="TP halves, padded vocabulary and GLU re-tiled",
    ),
    Case(
        "Q235-a",
        "qwen3-235b-a22b",
        sizes(64, tp=2, cp=2, ep=16, etp=1, pp=4, dp=4, pp_layers=Q235_UNEVEN),
        at(64, 64, tp=8, dp=8),
        state=WEIGHTS,
        why="train to generate, disjoint",
    ),
    Case(
        "Q235-b",
        "qwen3-235b-a22b",
        sizes(64, tp=4, ep=8, etp=1, pp=2, dp=8),
        sizes(64, tp=2, ep=16, etp=1, pp=4, dp=8, pp_layers=Q235_UNEVEN),
        why="EP and uneven PP move together",
    ),
    Case(
        "Q235-c",
        "qwen3-235b-a22b",
        sizes(64, tp=2, ep=8, etp=1, pp=2, dp=16),
        sizes(64, tp=2, ep=4, etp=2, pp=2, dp=16),
        why="expert-TP with GLU",
    ),
    Case(
        "Q235-d",
        "qwen3-235b-a22b",
        sizes(128, tp=2, ep=16, etp=1, pp=4, dp=16, pp_layers=Q235_UNEVEN),
        sizes(128, tp=4, ep=32, etp=1, pp=2, dp=16),
        why="TP, EP and PP at once, twice the devices",
    ),
    Case(
        "Q235-e",
        "qwen3-235b-a22b",
        sizes(
            128, tp=2, ep=16, etp=1, pp=4, dp=16, pp_layers=Q235_UNEVEN, zero=1
        ),
        sizes(128, tp=4, ep=32, etp=1, pp=2, dp=16, zero=1),
        why="the same with ZeRO-1",
    ),
    Case(
        "DS-a",
        "deepseek-v3",
        sizes(64, ep=16, pp=4, dp=16, pp_layers=DS_PP4),
        at(64, 64, tp=8, dp=8),
        state=WEIGHTS,
        why="train to generate, disjoint",
    ),
    Case(
        "DS-b",
        "deepseek-v3",
        sizes(128, ep=16, pp=8, dp=16, pp_layers=DS_PP8),
        at(128, 128, tp=8, dp=16),
        state=WEIGHTS,
        why="the same, twice as large",
    ),
    Case(
        "DS-c",
        "deepseek-v3",
        sizes(256, ep=16, pp=16, dp=16, pp_layers=DS_PP16),
        at(256, 256, tp=32, dp=8),
        state=WEIGHTS,
        why="PP 16 to TP 32, disjoint",
    ),
    Case(
        "PR7189",
        "qwen3-30b-a3b",
        sizes(32, tp=2, ep=16, etp=1, dp=16),
        at(32, 32, tp=4, ep=4, etp=1, dp=8),
        state=WEIGHTS,
        why="15k to 24k operations per rank elsewhere",
    ),
]

GPT27 = gpt3(32, 2560, 32)
GPT67 = gpt3(32, 4096, 32)


def tenplex(label, model):
    """(TP, PP, DP) = (4, 2, 1) on 8 devices to three layouts on 16."""
    source = sizes(8, tp=4, pp=2)
    return [
        Case(
            f"Tenplex-{label}-{name}",
            model,
            source,
            destination,
            why="Tenplex's on-premise scale-up",
        )
        for name, destination in [
            ("D2", sizes(16, tp=4, pp=2, dp=2)),
            ("M8", sizes(16, tp=8, pp=2)),
            ("P4", sizes(16, tp=4, pp=4)),
        ]
    ]


TENPLEX = (
    tenplex("1.3B", "gpt3-1.3b")
    + tenplex("2.7B", GPT27)
    + tenplex("6.7B", GPT67)
)

# 6656 wide with 64 heads, so that TP 16 divides them.
LLAMA32 = llama(60, 6656, 64, 17920)
HOTSPA_A = sizes(32, tp=16, pp=2)
HOTSPA_B = sizes(32, tp=2, pp=4, dp=4)
HOTSPA_C = sizes(32, tp=8, pp=2, dp=2)
HOTSPA = [
    Case("HotSPa-ab", LLAMA32, HOTSPA_A, HOTSPA_B, why="32B, hot switch 1"),
    Case("HotSPa-bc", LLAMA32, HOTSPA_B, HOTSPA_C, why="32B, hot switch 2"),
    Case("HotSPa-ca", LLAMA32, HOTSPA_C, HOTSPA_A, why="32B, back"),
]

DRAINED = [d for d in range(128) if not 40 <= d < 48]
WORLDS = [
    Case(
        "96-to-80",
        "llama3-70b",
        sizes(96, tp=8, dp=12, zero=1),
        sizes(80, tp=8, dp=10, zero=1),
        why="no power of two on either side",
    ),
    Case(
        "24-to-33",
        "llama3-8b",
        sizes(24, fsdp=24),
        sizes(33, fsdp=33),
        why="FSDP2 to a world that divides nothing",
    ),
    Case(
        "8-to-7",
        "llama3-8b",
        sizes(8, dp=8, zero=1),
        sizes(7, dp=7, zero=1),
        why="one device leaves",
    ),
    Case(
        "drain-1-of-16",
        "llama3-70b",
        sizes(128, tp=8, pp=2, dp=8),
        {**sizes(120, tp=8, pp=5, dp=3), "devices": DRAINED},
        why="one node of 16 is drained",
    ),
    Case(
        "disjoint-64-64",
        "llama3-70b",
        sizes(64, tp=8, pp=4, dp=2, zero=1),
        at(64, 64, tp=8, pp=2, dp=4, zero=1),
        why="hand-over to a new world",
    ),
]

RL = [
    Case(
        "RL-70B-same",
        "llama3-70b",
        sizes(32, tp=4, pp=4, dp=2),
        sizes(32, tp=8, dp=4),
        state=WEIGHTS,
        why="TP and PP to TP, same devices",
    ),
    Case(
        "RL-70B-apart",
        "llama3-70b",
        sizes(32, tp=4, pp=4, dp=2),
        at(32, 32, tp=8, dp=4),
        state=WEIGHTS,
        why="TP and PP to TP, disjoint",
    ),
    Case(
        "RL-30B-same",
        "qwen3-30b-a3b",
        sizes(32, ep=8, pp=2, dp=16),
        sizes(32, tp=4, dp=8),
        state=WEIGHTS,
        why="EP and PP to TP, same devices",
    ),
    Case(
        "RL-30B-apart",
        "qwen3-30b-a3b",
        sizes(32, ep=8, pp=2, dp=16),
        at(32, 16, tp=4, dp=4),
        state=WEIGHTS,
        why="EP and PP to TP, disjoint",
    ),
    Case(
        "RL-235B-same",
        "qwen3-235b-a22b",
        sizes(64, tp=4, ep=8, etp=1, pp=4, dp=4, pp_layers=Q235_UNEVEN),
        sizes(64, tp=8, dp=8),
        state=WEIGHTS,
        why="TP, EP and PP to TP, same devices",
    ),
]

SPREAD = [
    Case(
        "broadcast-8",
        "llama3-8b",
        sizes(1),
        {**sizes(8, dp=8), "devices": [8 * node for node in range(1, 9)]},
        state=WEIGHTS,
        why="one holder, one device on each of 8 nodes",
    ),
    Case(
        "broadcast-64",
        "llama3-8b",
        sizes(1),
        at(8, 64, dp=64),
        state=WEIGHTS,
        why="one holder, all devices of 8 nodes",
    ),
]

CASES = REFERENCE + TENPLEX + HOTSPA + WORLDS + RL + SPREAD


def cluster(per_node, intra, inter):
    return {
        "devices_per_node": per_node,
        "intra_node_GBps": intra,
        "inter_node_GBps": inter,
        "latency_us": 10,
    }


# A800: NVLink 200 GB/s each way, one 200 Gb/s NIC per device. GB200 and H100:
# where a source states no link rate, the NIC has the rate that it measured per
# destination GPU, so that what is compared is bytes and order.
A800 = cluster(8, 200, 25)
FP8 = {"param": "f8_e4m3"}
PUBLISHED = [
    Case(
        "DynaTrain-70B",
        "llama3-70b",
        sizes(128, tp=8, pp=4, dp=4, zero=1),
        sizes(128, tp=8, pp=2, dp=8, zero=1),
        state=OPTIMIZER,
        cluster=A800,
        why="70B, 128 A800; its transitions are not named",
        published="< 2 s",
    ),
    Case(
        "DynaTrain-235B",
        "qwen3-235b-a22b",
        sizes(128, ep=16, etp=1, pp=4, dp=32, pp_layers=Q235_UNEVEN, zero=1),
        sizes(128, ep=8, etp=1, pp=4, dp=32, pp_layers=Q235_UNEVEN, zero=1),
        state=OPTIMIZER,
        cluster=A800,
        why="235B, 128 A800; its transitions are not named",
        published="4.36 s",
    ),
    Case(
        "M2N-Qwen3-235B",
        "qwen3-235b-a22b",
        sizes(64, tp=2, cp=2, ep=16, etp=1, pp=4, dp=4, pp_layers=Q235_UNEVEN),
        at(64, 64, tp=8, dp=8),
        state=WEIGHTS,
        cluster=cluster(4, 450, 59),
        why="64 + 64 GB200, 59 GB/s as measured, trays of 4",
        published="0.989 s (direct 2.175 s)",
    ),
    Case(
        "M2N-Qwen3-235B-island",
        "qwen3-235b-a22b",
        sizes(64, tp=2, cp=2, ep=16, etp=1, pp=4, dp=4, pp_layers=Q235_UNEVEN),
        at(64, 64, tp=8, dp=8),
        state=WEIGHTS,
        cluster=cluster(64, 450, 59),
        why="the same where NVLink joins each side's 64",
        published="0.989 s (direct 2.175 s)",
    ),
    Case(
        "M2N-Qwen3-235B-vLLM",
        "qwen3-235b-a22b",
        sizes(64, tp=2, cp=2, ep=16, etp=1, pp=4, dp=4, pp_layers=Q235_UNEVEN),
        at(64, 64, tp=8, dp=8, ep=64, etp=1, framework="vllm"),
        state=WEIGHTS,
        cluster=cluster(4, 450, 59),
        why="trays of 4, to vLLM's tensors with EP 64",
        published="0.989 s (direct 2.175 s)",
    ),
    Case(
        "M2N-DSv3",
        "deepseek-v3",
        sizes(128, ep=16, pp=8, dp=16, pp_layers=DS_PP8),
        at(128, 128, tp=8, dp=16),
        state=FP8,
        cluster=cluster(4, 450, 58),
        why="128 + 128 GB200, FP8, 58 GB/s as measured, trays of 4",
        published="1.447 s (direct 3.838 s)",
    ),
    Case(
        "NeMo-RL-DSv3",
        "deepseek-v3",
        sizes(256, ep=16, pp=16, dp=16, pp_layers=DS_PP16),
        at(256, 256, tp=32, dp=8),
        state=WEIGHTS,
        cluster=cluster(8, 450, 50),
        why="BF16, H100 with 400 Gb/s NICs",
        published="2.39-2.83 s",
    ),
]


def links(*rates):
    """The cluster with (from, to, GBps) that differ from their level."""
    listed = [{"from": a, "to": b, "GBps": rate} for a, b, rate in rates]
    return {**CLUSTER, "links": listed}


def between(nodes, others, rate):
    """Every link between some nodes and others, both ways."""
    pairs = [(a, b) for a in nodes for b in others]
    pairs += [(b, a) for a, b in pairs]
    return [(f"node:{a}", f"node:{b}", rate) for a, b in pairs]


def example(name, why):
    """A request of examples/requests as a case."""
    text = (MODELS.parent / "requests" / f"{name}.json").read_text()
    given = json.loads(text)
    return Case(
        name,
        Path(given["model"]).stem,
        given["source"],
        given["destination"],
        state=given.get("state", WEIGHTS),
        cluster=given["cluster"],
        why=why,
        memory=given["memory"],
    )


TP8_TO_TP4 = (
    "llama3-8b",
    sizes(16, tp=8, dp=2, zero=1),
    sizes(16, tp=4, dp=4, zero=1),
)
UNEQUAL = [
    example("links-unequal-bandwidth", "one pair at a tenth, latencies count"),
    Case(
        "slow-pair",
        "llama3-8b",
        sizes(8, tp=8),
        at(8, 8, tp=8),
        cluster=links((3, 11, 0.025)),
        why="one pair at a thousandth",
    ),
    Case(
        "slow-node",
        "llama3-8b",
        sizes(32, tp=8, dp=4, zero=1),
        sizes(24, tp=8, dp=3, zero=1),
        cluster=links(*between([0, 1, 2], [3], 2.5)),
        why="a node at a tenth of the others' rate leaves",
    ),
    Case(
        "three-sites",
        "llama3-8b",
        sizes(24, tp=8, dp=3, zero=1),
        sizes(24, tp=8, pp=3, zero=1, pp_layers=[11, 11, 10]),
        cluster=links(
            *between([0], [1], 1.25),
            *between([0], [2], 0.125),
            *between([1], [2], 0.001),
        ),
        why="sites of a node at 10 Gb/s, 1 Gb/s and 8 Mb/s",
    ),
    Case(
        "broken-nvlink",
        *TP8_TO_TP4,
        cluster=links((2, 5, 20), (5, 2, 20)),
        why="one pair of a node over PCIe",
    ),
    Case(
        "pcie-node",
        *TP8_TO_TP4,
        cluster=links(("node:1", "node:1", 20)),
        why="one node has no NVLink",
    ),
    Case(
        "slow-uplinks",
        "llama3-70b",
        sizes(64, tp=8, pp=4, dp=2, zero=1),
        sizes(64, tp=4, pp=4, dp=4, zero=1),
        cluster=links(
            *(
                (f"node:{a}", f"node:{b}", 5)
                for a in range(4)
                for b in range(4, 8)
            )
        ),
        why="half of the nodes reach the others at a fifth, one way",
    ),
    Case(
        "broadcast-far",
        "llama3-8b",
        sizes(8, tp=8),
        at(8, 24, tp=8, dp=3),
        state=WEIGHTS,
        cluster=links(*between([0], [2, 3], 1)),
        why="three nodes want all, two of them are far from who has it",
    ),
    Case(
        "two-sites",
        "llama3-8b",
        sizes(16, tp=8, dp=2, zero=1),
        at(16, 16, tp=4, dp=4, zero=1),
        cluster=links(*between([0, 1], [2, 3], 1)),
        why="all goes to another site, whose nodes want much of it twice",
    ),
]
