"""Rules that capture reads of Hugging Face's plans, against what transformers
does to the parameters itself: models of element numbers are cut by its own
code, as every rank of a fake process group, and each rank's parameters must be
what a plan with those rules says that the rank stores."""

import json
import math
import subprocess
import sys

import pytest
from made_once import made_once
from test_capture import BIN, ROOT, capture
from test_capture_torch import in_child

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
np = pytest.importorskip("numpy")

sys.path.insert(0, str(ROOT / "test" / "Pipelines"))
from random_views import members, own_name, stored  # noqa: E402

WAYS = 4
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "vocab_size": 128,
    "pad_token_id": 0,
}
SPARSE = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
MODELS = {
    "llama": {"attention_bias": True},
    "gemma3_text": {},
    "olmo2": {},
    "phi3": {},
    "glm4": {},
    "starcoder2": {},
    "cohere": {},
    "mixtral": {"num_local_experts": 4},
    "gpt_oss": {"num_local_experts": 4},
    "qwen2_moe": {"num_experts": 4, "shared_expert_intermediate_size": 32}
    | SPARSE,
    "qwen3_moe": {"num_experts": 4} | SPARSE,
    "deepseek_v3": {
        "n_routed_experts": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    }
    | SPARSE,
}
EXPERTS = ("mixtral", "gpt_oss", "qwen2_moe", "qwen3_moe", "deepseek_v3")
CASES = [(kind, False) for kind in MODELS] + [(kind, True) for kind in EXPERTS]


def model_of(kind, device):
    config = transformers.AutoConfig.for_model(kind, **SMALL | MODELS[kind])
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float32
        )


def cut_by_transformers(kind, experts, rank):
    """{parameter: elements that the rank holds, in order}; tied ones once."""
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES

    model = model_of(kind, "cpu")
    names = dict(model.named_parameters()).keys()
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.arange(value.numel()).view(value.shape))
    sizes = {"tp_size": WAYS}
    if experts:
        sizes = {"fsdp_size": WAYS, "ep_size": WAYS}
    torch.distributed.init_process_group(
        "fake", store=fake.FakeStore(), rank=rank, world_size=WAYS
    )
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (WAYS,))
    plans = model._resolve_parallel_plans(DistributedConfig(**sizes))
    for name, style in plans[int(experts)].items():
        if name in dict(model.named_parameters()):
            owner, _, own = name.rpartition(".")
            module = model.get_submodule(owner)
            ALL_PARALLEL_STYLES[style].shard_param(module, own, mesh)
    torch.distributed.destroy_process_group()
    held = {}
    for name in names:
        value = model.get_parameter(name)
        local = value.to_local() if hasattr(value, "to_local") else value
        held[name] = local.detach().long().flatten().numpy()
    return held


def cut_by_plan(kind, experts, folder):
    """[{tensor: the same}] of every rank, and {tensor: its elements}."""
    captured = capture.huggingface(model_of(kind, "meta"), experts=experts)
    tensors = captured["model"]["tensors"]
    shapes = {row["name"]: tuple(row["shape"]) for row in tensors}
    sizes = {"dp": WAYS, "ep": WAYS, "etp": 1} if experts else {"tp": WAYS}
    request = captured | {
        "source": {"world": WAYS} | sizes,
        "destination": {"world": 1},
    }
    path, plan = folder / "request.json", folder / "out.dtplan"
    path.write_text(json.dumps(request))
    subprocess.run([BIN / "dt-opt", path, "-o", plan], check=True)
    ranks = []
    for rank in range(WAYS):
        dump = subprocess.run(
            [BIN / "dt-plan", "dump", plan, "--rank", str(rank), "--json"],
            check=True,
            capture_output=True,
        )
        held = {name: np.zeros(0, dtype=np.int64) for name in shapes}
        for each in json.loads(dump.stdout)["source"]:
            for shard in members(each):
                held[own_name(shard)] = stored(shard, shapes)
        ranks.append(held)
    return ranks, {name: math.prod(shape) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def cuts(tmp_path_factory):
    """What each rank holds of each case; a process is one rank only."""

    def cut_of(rank):
        return in_child(
            lambda: {case: cut_by_transformers(*case, rank) for case in CASES}
        )

    return made_once(
        tmp_path_factory,
        "cut-by-transformers",
        lambda: [cut_of(rank) for rank in range(WAYS)],
    )


@pytest.mark.parametrize(("kind", "experts"), CASES)
def test_rules_cut_as_transformers_does(kind, experts, cuts, tmp_path):
    if not (BIN / "dt-opt").exists():
        pytest.skip("the tools are not built")
    mine, sizes = cut_by_plan(kind, experts, tmp_path)
    some = False
    for rank, held in enumerate(mine):
        theirs = cuts[rank][kind, experts]
        for name, elements in theirs.items():
            assert np.array_equal(held[name], elements), (rank, name)
            some |= elements.size < sizes[name]
    assert some


class Described:
    """A model with one parameter, and plans."""

    def __init__(self, tp_plan, ep_plan=None, shape=(6, 4)):
        self.tp_plan, self.ep_plan, self.shape = tp_plan, ep_plan, shape

    def named_parameters(self):
        return [("layers.0.w.weight", torch.empty(self.shape, device="meta"))]

    def named_buffers(self):
        return []

    def state_dict(self):
        return {}


@pytest.mark.parametrize(
    ("model", "experts", "text"),
    [
        (Described({}), False, "Described has no plan"),
        (Described({"layers.*.w": "colwise"}), True, "no plan for experts"),
        (
            Described({"layers.*.w": "woven"}),
            False,
            "'layers.0.w.weight' by 'woven'",
        ),
        (
            Described({"layers.*.w": "packed_colwise"}, shape=(5, 4)),
            False,
            "two packed parts of dim 0, which has 5",
        ),
    ],
)
def test_what_no_rule_says_is_refused(model, experts, text):
    with pytest.raises(capture.CaptureError, match=text):
        capture.huggingface(model, experts=experts)
