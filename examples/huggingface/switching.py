"""A Hugging Face model changes its layout live, plain PyTorch around it.

    torchrun --nproc-per-node=4 examples/huggingface/switching.py [--lora]
        [--steps N] [--check]

Llama with tied embeddings goes through FSDP2 on 4 -> FSDP2 with tensor
parallelism, 2 x 2 -> HSDP 2 x 2 -> DDP -> FSDP2 on 4. With --lora the model is
frozen but for its LoRA parameters. With --check every byte of the state is
compared with what torch's own gather gives, and the losses with those of runs
without switches.
"""

import argparse
import sys
from pathlib import Path

import dynatrain
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cpu  # noqa: E402
import noise  # noqa: E402

LAYOUTS = [
    {"shard": 4},
    {"shard": 2, "tp": 2},
    {"replicate": 2, "shard": 2},
    {"ddp": 4},
    {"shard": 4},
]
VOCABULARY, BATCH, LENGTH = 250, 8, 16


def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def make_model(lora):
    """The same weights on every process, for all layouts."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=88,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    )
    if lora:
        from peft import LoraConfig, get_peft_model

        wanted = LoraConfig(
            r=4,
            target_modules=["q_proj", "v_proj"],
            lora_dropout=0.0,
            init_lora_weights="gaussian",
        )
        model = get_peft_model(model, wanted)
    return model.to(device())


def tensor_parallel(model, mesh):
    styles = {}
    for number in range(len(model.model.layers)):
        at = f"model.layers.{number}"
        for name in ("q_proj", "k_proj", "v_proj"):
            styles[f"{at}.self_attn.{name}"] = ColwiseParallel()
        for name in ("gate_proj", "up_proj"):
            styles[f"{at}.mlp.{name}"] = ColwiseParallel()
        styles[f"{at}.self_attn.o_proj"] = RowwiseParallel()
        styles[f"{at}.mlp.down_proj"] = RowwiseParallel()
    parallelize_module(model, mesh, styles)


def parallelize(model, sizes):
    """The model in a layout, and its part of data parallelism."""
    mesh = init_device_mesh(
        device(), tuple(sizes.values()), mesh_dim_names=tuple(sizes)
    )
    if "ddp" in sizes:
        return DistributedDataParallel(model), mesh
    if "tp" in sizes:
        tensor_parallel(model, mesh["tp"])
    data = mesh["replicate", "shard"] if "replicate" in sizes else mesh["shard"]
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    for layer in base.model.layers:
        fully_shard(layer, mesh=data)
    return fully_shard(model, mesh=data), data


class Trainer:
    """Model, optimizer and schedule in one layout."""

    def __init__(self, sizes, lora):
        # LoRA parameters lie inside the modules that TP would cut.
        if lora and "tp" in sizes:
            sizes = {"shard": 4}
        self.model, self.mesh = parallelize(make_model(lora), sizes)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in trained if p.dim() > 1], "lr": 3e-3},
                {"params": [p for p in trained if p.dim() < 2], "lr": 1e-3},
            ],
            amsgrad=True,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: 0.5 ** (step / 8)
        )

    def step(self, number):
        generator = torch.Generator().manual_seed(number)
        first = torch.randint(0, 64, (BATCH, 1), generator=generator)
        tokens = (first + torch.arange(LENGTH)) % VOCABULARY
        part, parts = dist.get_rank(self.group), dist.get_world_size(self.group)
        mine = tokens.chunk(parts)[part].to(device())
        self.optimizer.zero_grad()
        loss = self.model(input_ids=mine, labels=mine, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean.item() / dist.get_world_size()

    @property
    def group(self):
        """All processes that have samples of their own."""
        if self.mesh.ndim == 1:
            return self.mesh.get_group()
        return dist.group.WORLD


def registered(trainer, step):
    return dynatrain.State(
        model=trainer.model,
        optimizer=trainer.optimizer,
        schedule=trainer.schedule,
        step=step,
        rng=True,
    )


def switched(trainer, step, build):
    """The trainer in another layout."""
    # glue begins
    with torch.random.fork_rng():
        new = build()
    before, after = registered(trainer, step), registered(new, 0)
    world = dynatrain.World(timeout=60)
    plan = dynatrain.plan_between(before, after, world)
    switch = plan.prepare(world, before, after)
    switch.transfer()
    switch.commit()
    # glue ends
    assert after.step == step
    return new


def everything(trainer):
    """Full tensors of the model and its optimizer, by torch's own gather."""
    model = trainer.model
    model = getattr(model, "module", model)
    named = {id(p): name for name, p in model.named_parameters()}
    found = {("buffer", name): b for name, b in model.named_buffers()}
    for parameter in model.parameters():
        name = named[id(parameter)]
        found["param", name] = parameter
        for key, value in trainer.optimizer.state.get(parameter, {}).items():
            found[key, name] = value
    return {
        key: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone()
        for key, t in found.items()
    }


def checked(trainer, step, build):
    full, generator = everything(trainer), torch.get_rng_state()
    new = switched(trainer, step, build)
    found = everything(new)
    assert found.keys() == full.keys()
    for key, tensor in found.items():
        assert torch.equal(tensor, full[key]), key
    assert torch.equal(torch.get_rng_state(), generator)
    assert new.schedule.state_dict() == trainer.schedule.state_dict()
    count = sum(tensor.numel() for tensor in found.values())
    if dist.get_rank() == 0:
        print(f"{count} values are right", flush=True)
    return new


def run(layouts, options, switches):
    trainer, losses = Trainer(layouts[0], options.lora), []
    for number, sizes in enumerate(layouts):
        if number and switches:
            switch = checked if options.check else switched
            trainer = switch(
                trainer,
                len(losses),
                lambda sizes=sizes: Trainer(sizes, options.lora),
            )
        for _ in range(options.steps):
            losses.append(trainer.step(len(losses)))
    if dist.get_rank() == 0:
        print(" ".join(f"{loss:.6f}" for loss in losses), flush=True)
    return losses


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device() == "cuda" else "gloo")
    losses = run(LAYOUTS, options, switches=True)
    if options.check:
        runs = [
            run([stay, *LAYOUTS[1:]], options, switches=False)
            for stay in LAYOUTS[:-1]
        ]
        found = noise.compare(losses, runs)
        if dist.get_rank() == 0:
            print(found, flush=True)


if __name__ == "__main__":
    main()
    cpu.leave()
