"""A job that changes framework with its whole training state, on CPUs.

    python test/Python/framework_training.py CASE...

Megatron-Core trains in four processes, its optimizer distributed over data
parallelism. A switch takes weights and moments over to the model that
transformers builds and its AdamW: each tensor must be what a gather, Hugging
Face's conversion and a slice give, bit for bit. Another switch takes them back
into tensors that have lost their values, bit for bit again. Then both train
on: losses and parameters agree.

Parameters of single precision are themselves what the optimizer steps. Of bf16
parameters it steps copies, the main parameters: AdamW's parameters are these.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "test" / "Pipelines"), str(ROOT / "examples" / "megatron"),
]  # fmt: skip

import framework_models as models  # noqa: E402
import independent  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from framework_truth import Truth  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.optimizer import (  # noqa: E402
    OptimizerConfig,
    get_megatron_optimizer,
)
from megatron.core.pipeline_parallel.schedules import (  # noqa: E402
    get_forward_backward_func,
)
from megatron.core.transformer.module import Float16Module  # noqa: E402
from processes import run_ranks  # noqa: E402
from trainer import Sizes  # noqa: E402

dynatrain = models.dynatrain
WORLD, LENGTH, STEPS, SAMPLES = models.WORLD, models.LENGTH, 2, 4
#: A large epsilon: where a gradient is all noise, a step is not.
RATE, BETAS, EPSILON, DECAY = 1e-2, (0.9, 0.95), 1e-5, 0.1
MOMENTS = {"exp_avg": "f32", "exp_avg_sq": "f32"}
#: Nothing is padded: padding takes part in Megatron-Core's loss.
SMALL = models.SMALL | {"vocab_size": 128}

# The model, Hugging Face's layout, Megatron-Core's, bf16 parameters.
CASES = {
    "llama": ("llama", {"world": 1}, {"tp": 2, "dp": 2}, True),
    "llama-fsdp": ("llama", {"world": 2, "fsdp": 2}, {"pp": 2, "dp": 2}, False),
    "qwen3_moe": (
        "qwen3_moe",
        {"world": 1},
        {"dp": 4, "ep": 2, "etp": 2},
        False,
    ),
    "qwen3_moe-fsdp": (
        "qwen3_moe",
        {"world": 2, "fsdp": 2},
        {"dp": 4, "ep": 2, "etp": 1},
        True,
    ),
}


def batch():
    """Tokens that follow each other, so that there is something to learn."""
    generator = torch.Generator().manual_seed(5)
    first = torch.randint(0, 128, (SAMPLES, 1), generator=generator)
    return (first + torch.arange(LENGTH + 1)) % 128


# Megatron-Core's side.


class Trainer:
    """The names `chunks`, `optimizer` and `sizes` are those that
    `independent` reads."""

    def __init__(self, config, sizes, half, order):
        self.config = config
        self.sizes = Sizes(
            *(sizes.get(key, 1) for key in ("tp", "pp", "ep", "etp"))
        )
        dtype = torch.bfloat16 if half else torch.float32
        core = models.megatron_model(config, sizes, dtype, trains=True)
        self.named = models.megatron_tensors(core, config, sizes)
        wrapped = Float16Module(core.config, core) if half else core
        registered_as(wrapped, [self.named[name] for name in order])
        self.chunks = [
            DistributedDataParallel(
                core.config,
                DistributedDataParallelConfig(
                    grad_reduce_in_fp32=True, use_distributed_optimizer=True
                ),
                wrapped,
            )
        ]
        self.optimizer = get_megatron_optimizer(
            OptimizerConfig(
                optimizer="adam", lr=RATE, weight_decay=DECAY,
                adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_eps=EPSILON,
                bf16=half, params_dtype=dtype, clip_grad=0.0,
                use_distributed_optimizer=True,
            ),
            self.chunks,
        )  # fmt: skip
        for group in self.optimizer.param_groups:  # as its scheduler does
            group["weight_decay"] = DECAY * group["wd_mult"]
        core.config.finalize_model_grads_func = finalize_model_grads
        core.config.grad_scale_func = self.optimizer.scale_loss

    def step(self):
        """The mean loss of all samples, on all processes."""
        self.chunks[0].zero_grad_buffer()
        self.optimizer.zero_grad()
        ways = parallel_state.get_data_parallel_world_size()
        own = batch().chunk(ways)[parallel_state.get_data_parallel_rank()]
        losses = get_forward_backward_func()(
            forward_step_func=forward,
            data_iterator=iter(own.split(1)),
            model=self.chunks,
            num_microbatches=len(own),
            seq_length=LENGTH,
            micro_batch_size=1,
            forward_only=False,
        )
        self.optimizer.step()
        told = [sum(float(one["loss"]) for one in losses), float(len(losses))]
        told = torch.tensor(told)
        dist.all_reduce(told)
        return (told[0] / told[1]).item()

    def tensors(self):
        """{(the plan's name, state): tensor}: weights, and what the optimizer
        keeps of its ranges."""
        found = {(n, "param"): p.detach() for n, p in self.named.items()}
        names = {id(p): n for n, p in self.named.items()}
        for parameter, states in kept(self.optimizer):
            name = names[id(parameter)]
            main = states.pop("param")
            if main.untyped_storage().data_ptr() != (
                parameter.untyped_storage().data_ptr()
            ):
                found[name, "master"] = main.detach()
            for state in MOMENTS:
                found[name, state] = states[state]
        return found


def registered_as(module, parameters):
    """The order decides what lies where in the optimizer's buffers: that of
    Transformer Engine's modules, whose names the plan has."""
    names = {id(p): name for name, p in module.named_parameters()}
    assert len(names) == len(parameters), (len(names), len(parameters))
    order = [(names[id(p)], p) for p in parameters]
    module.named_parameters = lambda *_, **__: iter(order)


def registration_order(plan, rank):
    """Of the plan's names; it has what is alike in all layers at one place."""

    def layer(name):
        if found := re.match(r"decoder\.layers\.(\d+)\.", name):
            return int(found[1])
        return -1 if name.startswith("embedding.") else sys.maxsize

    names = [
        entry.tensor
        for entry in plan.expected(rank)
        if (entry.side, entry.state) == ("source", "param")
    ]
    return sorted(names, key=layer)


def kept(optimizer):
    """(parameter, what DistributedOptimizer has of its range)."""
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        for parameter in one.model_param_gbuf_map:
            yield (
                parameter,
                dict(one._get_main_param_and_optimizer_states(parameter)),
            )


def forward(batches, model):
    tokens = next(batches)
    positions = torch.arange(LENGTH).unsqueeze(0)
    mask = torch.ones(1, 1, LENGTH, LENGTH).triu(1).bool()
    output = model(tokens[:, :-1], positions, mask, labels=tokens[:, 1:])

    def loss(of_tokens):
        mean = of_tokens.float().mean()
        return mean, {"loss": mean.detach().clone()}

    return output, loss


# What Hugging Face's side must have.


EXPERT = re.compile(r"(.*\.mlp\.experts)\.(?:experts\.)?(\d+)\.(.*)")
NORMS = (
    ("input_layernorm.", "self_attention.linear_qkv.layer_norm_"),
    ("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"),
)


def model_tensors(gathered, sparse):
    """The same under the names of the model's tensors, experts stacked."""
    found, experts = {}, {}
    for (name, state), tensor in gathered.items():
        for own, engine in NORMS[: 1 if sparse else 2]:
            name = name.replace(own, engine)
        if match := EXPERT.fullmatch(name):
            of = experts.setdefault((f"{match[1]}.{match[3]}", state), {})
            of[int(match[2])] = tensor
        else:
            found[name, state] = tensor
    for key, of in experts.items():
        found[key] = torch.stack([of[number] for number in sorted(of)])
    return found


def converted(trainer):
    """{(Hugging Face's name, state): full tensor}, gathered from everyone."""
    rows = independent.rows_of(trainer, independent.place_of(trainer.sizes))
    for row in rows:
        row.gated = "linear_fc1" in row.name
    config = trainer.config
    full = model_tensors(
        independent.gathered([row for row in rows if row.state != "step"]),
        "num_experts" in config,
    )
    states = {state for _, state in full}
    return {
        (name, state): full[tensor.of, state].reshape(-1)[
            torch.from_numpy(tensor.elements)
        ]
        for name, tensor in Truth(config).of("huggingface").items()
        for state in states
    }


# Hugging Face's side.


class Tuner:
    """The model, and AdamW as Megatron-Core groups parameters: those of one
    dim do not decay."""

    def __init__(self, config, layout, mesh, rank):
        self.model = models.huggingface_model(config, 2, mesh).train()
        self.part = rank if "fsdp" in layout else 0
        self.ways = layout.get("fsdp", 1)
        # FSDP2 shards the first dim, and keeps how many there are.
        groups = {True: [], False: []}
        for parameter in self.model.parameters():
            groups[parameter.dim() == 1].append(parameter)
        self.adamw = torch.optim.AdamW(
            [
                {"params": of, "weight_decay": 0.0 if flat else DECAY}
                for flat, of in groups.items()
            ],
            lr=RATE,
            betas=BETAS,
            eps=EPSILON,
        )

    def parameters(self):
        return dict(self.model.named_parameters())

    def step(self):
        """The mean loss of this process's samples."""
        tokens = batch().chunk(self.ways)[self.part]
        logits = self.model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), tokens[:, 1:].flatten()
        )
        self.adamw.zero_grad()
        loss.backward()
        self.adamw.step()
        return loss.item()

    def slice(self, full):
        """This process's part of a full tensor, as FSDP2 cuts it."""
        parts = full.chunk(self.ways)
        return parts[self.part] if self.part < len(parts) else full[:0]


def renamed(tensors, weights):
    """State `param` under the name that the plan has for it."""
    return {
        (name, weights if state == "param" else state): models.local(tensor)
        for (name, state), tensor in tensors.items()
    }


# Between them.


def switch(rank, store, tag, path, source, destination):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(
        store=dist.PrefixStore(tag, store), rank=rank, timeout=120
    )
    running = plan.prepare(world, source, destination)
    running.transfer()
    running.commit()


def check_arrived(tuner, tensors, wanted, weights):
    """Bit for bit what the independent way gives."""
    count = 0
    for (name, state), tensor in renamed(tensors, weights).items():
        key = "main param" if state == weights else f"main {state}"
        right = tuner.slice(wanted[name, key])
        assert torch.equal(tensor, right), (name, state)
        count += tensor.numel()
    return count


class Apart:
    """How far two lists of tensors are from each other, as the root of the
    mean square."""

    def __init__(self):
        self.squares, self.count = 0.0, 0

    def add(self, tensor, right):
        self.squares += (tensor - right).square().sum().item()
        self.count += right.numel()

    def mean(self):
        return (self.squares / max(self.count, 1)) ** 0.5


def body(rank, store, case, there, back):
    kind, layout, sizes, half = CASES[case]
    config = SMALL | models.MODELS[kind]
    weights = "master" if half else "param"
    dist.init_process_group(
        models.BACKEND, store=dist.PrefixStore("groups", store), rank=rank,
        world_size=WORLD,
    )  # fmt: skip
    mesh = None
    if "fsdp" in layout:
        mesh = dist.device_mesh.DeviceMesh("cpu", range(layout["world"]))
    order = registration_order(dynatrain.Plan.load(there), rank)
    trainer = Trainer(config, sizes, half, order)
    for _ in range(STEPS):
        trainer.step()
    wanted = converted(trainer)
    ours = trainer.tensors()

    # There.
    tuner = (
        Tuner(config, layout, mesh, rank) if rank < layout["world"] else None
    )
    theirs, count = {}, 0
    if tuner:
        made = dynatrain.fresh_state(tuner.parameters(), tuner.adamw)
        theirs = renamed(made.tensors, weights)
    switch(rank, store, "there", there, ours, theirs)
    if tuner:
        names = tuner.parameters()
        made.install({name: {"step": float(STEPS)} for name in names})
        held = dynatrain.training_state(names, tuner.adamw)
        count = check_arrived(tuner, held, wanted, weights)
        theirs = renamed(held, weights)

    # Back, into tensors without values.
    before = {key: tensor.clone() for key, tensor in ours.items()}
    for tensor in ours.values():
        tensor.fill_(torch.nan)
    switch(rank, store, "back", back, theirs, ours)
    for key, tensor in ours.items():
        assert torch.equal(tensor, before[key]), key

    # Both go on.
    loss = trainer.step()
    now = converted(trainer)
    told, apart = None, Apart()
    if tuner:
        told = tuner.step()
        for name, tensor in tuner.parameters().items():
            right = tuner.slice(now[name, "main param"])
            apart.add(models.local(tensor).detach(), right)
    return count, loss, told, apart.mean()


def request_of(folder, source, destination, half, back):
    """AdamW's f32 parameters are the main ones of bf16 parameters."""
    weights = {"param": "bf16", "master": "f32"} if half else {"param": "f32"}
    own = {"master": "f32"} if half else {"param": "f32"}
    states = [weights | MOMENTS, own | MOMENTS]
    if back:
        states.reverse()
    request = {
        "model": str(folder / "config.json"),
        "vocab_multiple": models.PADDED_TO,
        "source": source | {"state": states[0]},
        "destination": destination | {"state": states[1]},
    }
    if half:
        request |= (
            {"derive": {"param": "master"}} if back else {"drop": ["param"]}
        )
    return request


def run(case, folder):
    kind, layout, sizes, half = CASES[case]
    sides = [
        sizes | {"world": WORLD, "zero": 1},
        layout | {"framework": "huggingface"},
    ]
    paths = []
    for back in (False, True):
        paths.append(str(folder / f"{case}-{back}.dtplan"))
        request = request_of(folder, *sides, half, back)
        dynatrain.compile(request, paths[-1])
        sides.reverse()
    results = run_ranks(WORLD, body, folder, case, *paths, limit=300)
    assert not any(isinstance(one, str) for one in results), results
    told = [loss for _, _, loss, _ in results if loss is not None]
    losses = sum(told) / len(told), results[0][1]
    apart = abs(losses[0] - losses[1])
    off = max(one[3] for one in results)
    # The noise of bf16, or that of single precision.
    limit = 2e-2 if half else 1e-5
    assert apart < limit, (case, losses)
    # A step of Adam's is about as long as the rate.
    assert off < RATE * (2e-2 if half else 1e-5), (case, off)
    count = sum(one[0] for one in results)
    print(
        f"{case}: {count} values arrive and come back; the next loss is "
        f"{losses[0]:.6f}, {apart:.1e} apart, parameters {off:.1e}"
    )


if __name__ == "__main__":
    models.run_cases(run, CASES, SMALL, __doc__)
