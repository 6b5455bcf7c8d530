"""What tensors frameworks make of one model, as element numbers.

A model's tensors are Megatron-Core's, with the experts of a layer in one and,
where vLLM takes part, latent attention's projections down in one. `Truth` makes
of them what Hugging Face's checkpoints have, by the reshapes that converters
use, and of that what each framework's own loader makes: torchtitan's by the
code of its state dict adapters.
"""

import re

import numpy as np

PADDING = -1
LAYER, HF = "decoder.layers.{}.", "model.layers.{}."
GPT2 = "transformer.h.{}."
# Hugging Face's name of a layer's MLP, where it has one of its own.
MLPS = {"llama4_text": "feed_forward."}


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


class Tensor:
    """Some elements of a tensor of the model, in an order of their own."""

    def __init__(self, of, elements):
        self.of, self.elements = of, elements

    @classmethod
    def fused(cls, parts, axis=0):
        assert len({part.of for part in parts}) == 1
        return cls(
            parts[0].of, np.concatenate([p.elements for p in parts], axis)
        )

    @classmethod
    def stacked(cls, parts):
        assert len({part.of for part in parts}) == 1
        return cls(parts[0].of, np.stack([p.elements for p in parts]))


class Truth:
    def __init__(self, config, joined=False, expert_ways=1):
        self.config, self.joined = config, joined
        self.expert_ways = expert_ways  # of vLLM's side
        self.type = config["model_type"]
        self.hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.groups = config.get("num_key_value_heads", self.heads)
        self.dim = config.get("head_dim", self.hidden // self.heads)
        self.latent = "kv_lora_rank" in config
        self.experts = next(
            (
                config[key]
                for key in (
                    "num_experts",
                    "num_local_experts",
                    "n_routed_experts",
                )
                if key in config
            ),
            0,
        )
        self.shapes = {}  # of the model's tensors
        self.checkpoint = {}
        if self.type == "gpt2":
            return self._gpt2()
        if self.type == "nemotron_h":
            return self._nemotron_h()
        self._embeddings()
        for layer in range(config["num_hidden_layers"]):
            self._layer(layer)

    # The model's tensors, and Hugging Face's of them.

    def _whole(self, base, *shape):
        self.shapes[base] = shape
        return numbers(*shape)

    def _add(self, name, base, elements):
        self.checkpoint[name] = Tensor(base, elements)

    def _copy(self, name, base, *shape):
        self._add(name, base, self._whole(base, *shape))

    def _embeddings(self):
        vocabulary = self.config["vocab_size"], self.hidden
        self._copy(
            "model.embed_tokens.weight",
            "embedding.word_embeddings.weight",
            *vocabulary,
        )
        self._copy(
            "model.norm.weight", "decoder.final_layernorm.weight", self.hidden
        )
        if not self.config.get("tie_word_embeddings"):
            self._copy("lm_head.weight", "output_layer.weight", *vocabulary)

    def _layer(self, n):
        base, own = LAYER.format(n), HF.format(n)
        gemma = self.type.startswith("gemma")
        if self._is_linear(n):
            self._delta_net(base, own)
        elif self.latent:
            self._latent(base, own)
        else:
            self._attention(base, own)
        behind = "pre_feedforward" if gemma else "post_attention"
        moe = self.experts and n >= self.config.get("first_k_dense_replace", 0)
        if step := self.config.get("interleave_moe_layer_step"):
            moe = n % step == step - 1
        mlp = own + MLPS.get(self.type, "mlp.")
        norm = (
            "pre_mlp_layernorm.weight"
            if moe
            else "mlp.linear_fc1.layer_norm_weight"
        )
        self._copy(own + f"{behind}_layernorm.weight", base + norm, self.hidden)
        if gemma:
            for name, linear in (
                ("post_attention", "self_attention.linear_proj"),
                ("post_feedforward", "mlp.linear_fc2"),
            ):
                self._copy(
                    own + name + "_layernorm.weight",
                    base + linear + ".post_layernorm.weight",
                    self.hidden,
                )
        width = self.config["intermediate_size"]
        if moe and self.type == "gpt_oss":
            self._interleaved(base + "mlp.", mlp)
        elif moe and self.type == "llama4_text":
            self._stacked(base + "mlp.", mlp)
        elif moe:
            self._sparse(base + "mlp.", mlp)
        else:
            self._gated(
                base + "mlp.",
                mlp,
                self.config.get("intermediate_size_mlp", width),
            )

    def _is_linear(self, n):
        return (
            self.type == "qwen3_next"
            and (n + 1) % self.config["full_attention_interval"] != 0
        )

    def linear_parts(self):
        """Rows of q, k, v, z, beta and alpha."""
        c = self.config
        keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
        q = keys * c["linear_key_head_dim"]
        wide = values * c["linear_value_head_dim"]
        return [q, q, wide, wide, values, values]

    def _delta_net(self, base, own):
        """Megatron-Core's projection is q, k, v, z, beta and alpha; Hugging
        Face's two have those of each key head behind each other, as
        `fix_query_key_value_ordering` takes them apart."""
        c, hidden = self.config, self.hidden
        at, to = base + "self_attention.", own + "linear_attn."
        keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
        sizes = self.linear_parts()
        q, wide = sizes[0], sizes[2]
        self._copy(
            own + "input_layernorm.weight",
            at + "in_proj.layer_norm_weight",
            hidden,
        )
        name = at + "in_proj.weight"
        whole = self._whole(name, sum(sizes), hidden)
        parts = [
            part.reshape(keys, -1, hidden)
            for part in np.split(whole, np.cumsum(sizes)[:-1])
        ]
        for own_name, some in (
            ("in_proj_qkvz.weight", parts[:4]),
            ("in_proj_ba.weight", parts[4:]),
        ):
            by_head = np.concatenate(some, axis=1).reshape(-1, hidden)
            self._add(to + own_name, name, by_head)
        for own_name, base_name, shape in (
            ("conv1d.weight", "conv1d.weight",
             (2 * q + wide, 1, c["linear_conv_kernel_dim"])),
            ("dt_bias", "dt_bias", (values,)),
            ("A_log", "A_log", (values,)),
            ("norm.weight_less_one", "out_norm.weight",
             (c["linear_value_head_dim"],)),
            ("out_proj.weight", "out_proj.weight", (hidden, wide)),
        ):  # fmt: skip
            self._copy(to + own_name, at + base_name, *shape)

    def _attention(self, base, own):
        at, to = base + "self_attention.", own + "self_attn."
        per = self.heads // self.groups
        gated = self.type == "qwen3_next"
        queries = 2 * per if gated else per
        rows = self.groups * (queries + 2) * self.dim
        self._copy(
            own + "input_layernorm.weight",
            at + "linear_qkv.layer_norm_weight",
            self.hidden,
        )
        has_bias = self.type.startswith("qwen2") or self.config.get(
            "attention_bias"
        )
        for kind, more in (("weight", [self.hidden]), ("bias", [])):
            if kind == "bias" and not has_bias:
                continue
            name = at + "linear_qkv." + kind
            by_group = self._whole(name, rows, *more).reshape(
                self.groups, queries + 2, self.dim, *more
            )
            q = by_group[:, :queries]
            if gated:  # a head's query, then its gate
                q = np.stack([q[:, :per], q[:, per:]], axis=2)
            for letter, part in zip(
                "qkv",
                (q, by_group[:, queries], by_group[:, queries + 1]),
                strict=True,
            ):
                self._add(
                    to + f"{letter}_proj.{kind}", name, part.reshape(-1, *more)
                )
        width = self.heads * self.dim
        self._copy(
            to + "o_proj.weight", at + "linear_proj.weight", self.hidden, width
        )
        if self.type == "gpt_oss":
            self._copy(to + "o_proj.bias", at + "linear_proj.bias", self.hidden)
            self._copy(
                to + "sinks", at + "core_attention.softmax_offset", self.heads
            )
        if self.type in (
            "qwen3",
            "qwen3_moe",
            "qwen3_next",
            "gemma3_text",
        ) or self.config.get("use_qk_norm"):
            for letter in "qk":
                self._copy(
                    to + f"{letter}_norm.weight",
                    at + f"{letter}_layernorm.weight",
                    self.dim,
                )

    def _latent(self, base, own):
        at, to, c = base + "self_attention.", own + "self_attn.", self.config
        down = c["kv_lora_rank"] + c["qk_rope_head_dim"]
        queries = self.heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
        values = self.heads * (c["qk_nope_head_dim"] + c["v_head_dim"])
        self._copy(
            own + "input_layernorm.weight",
            base + "input_layernorm.weight",
            self.hidden,
        )
        ranks = c.get("q_lora_rank")
        if ranks and self.joined:
            both = self._whole(
                at + "linear_qkv_down_proj.weight", ranks + down, self.hidden
            )
            for name, part in (
                ("q_a_proj", both[:ranks]),
                ("kv_a_proj_with_mqa", both[ranks:]),
            ):
                self._add(
                    to + name + ".weight",
                    at + "linear_qkv_down_proj.weight",
                    part,
                )
        else:
            if ranks:
                self._copy(
                    to + "q_a_proj.weight",
                    at + "linear_q_down_proj.weight",
                    ranks,
                    self.hidden,
                )
            self._copy(
                to + "kv_a_proj_with_mqa.weight",
                at + "linear_kv_down_proj.weight",
                down,
                self.hidden,
            )
        if ranks:
            self._copy(
                to + "q_a_layernorm.weight",
                at + "linear_q_up_proj.layer_norm_weight",
                ranks,
            )
            self._copy(
                to + "q_b_proj.weight",
                at + "linear_q_up_proj.weight",
                queries,
                ranks,
            )
        else:
            self._copy(
                to + "q_proj.weight",
                at + "linear_q_proj.weight",
                queries,
                self.hidden,
            )
        rank = c["kv_lora_rank"]
        self._copy(
            to + "kv_a_layernorm.weight",
            at + "linear_kv_up_proj.layer_norm_weight",
            rank,
        )
        self._copy(
            to + "kv_b_proj.weight",
            at + "linear_kv_up_proj.weight",
            values,
            rank,
        )
        self._copy(
            to + "o_proj.weight",
            at + "linear_proj.weight",
            self.hidden,
            self.heads * c["v_head_dim"],
        )

    def _gated(self, base, own, width):
        fc1 = self._whole(base + "linear_fc1.weight", 2 * width, self.hidden)
        self._add(
            own + "gate_proj.weight", base + "linear_fc1.weight", fc1[:width]
        )
        self._add(
            own + "up_proj.weight", base + "linear_fc1.weight", fc1[width:]
        )
        self._copy(
            own + "down_proj.weight",
            base + "linear_fc2.weight",
            self.hidden,
            width,
        )

    def _sparse(self, base, own):
        c, count = self.config, self.experts
        width = c.get("moe_intermediate_size", c["intermediate_size"])
        self._copy(
            own + "gate.weight", base + "router.weight", count, self.hidden
        )
        if self.type in ("deepseek_v3", "glm4_moe"):
            self._copy(
                own + "gate.e_score_correction_bias",
                base + "router.expert_bias",
                count,
            )
        names = [base + f"experts.linear_fc{i}.weight" for i in (1, 2)]
        fc1 = self._whole(names[0], count, 2 * width, self.hidden)
        fc2 = self._whole(names[1], count, self.hidden, width)
        for e in range(count):
            each = own + f"experts.{e}."
            self._add(each + "gate_proj.weight", names[0], fc1[e, :width])
            self._add(each + "up_proj.weight", names[0], fc1[e, width:])
            self._add(each + "down_proj.weight", names[1], fc2[e])
        if self.type in ("qwen2_moe", "qwen3_next"):
            self._copy(
                own + "shared_expert_gate.weight",
                base + "shared_experts.gate_weight",
                1,
                self.hidden,
            )
            self._gated(
                base + "shared_experts.",
                own + "shared_expert.",
                c["shared_expert_intermediate_size"],
            )
        elif c.get("n_shared_experts"):
            self._gated(
                base + "shared_experts.",
                own + "shared_experts.",
                c["n_shared_experts"] * width,
            )

    def _stacked(self, base, own):
        """Experts in one tensor, inputs before outputs."""
        count, width = self.experts, self.config["intermediate_size"]
        for name, linear, rows, columns in (
            ("gate_up_proj", "linear_fc1", 2 * width, self.hidden),
            ("down_proj", "linear_fc2", self.hidden, width),
        ):
            weight = base + f"experts.{linear}.weight"
            experts = self._whole(weight, count, rows, columns)
            self._add(own + "experts." + name, weight, experts.swapaxes(1, 2))
        self._copy(
            own + "router.weight", base + "router.weight", count, self.hidden
        )
        self._gated(base + "shared_experts.", own + "shared_expert.", width)

    def _interleaved(self, base, own):
        """Experts in one tensor, inputs before outputs, columns of gate and up
        in turns: `gate_up[..., ::2]` and `gate_up[..., 1::2]` of GptOssExperts.
        The plan has gate and up as a dim of their own."""
        count, width = self.experts, self.config["intermediate_size"]
        for kind, more in (("weight", [self.hidden]), ("bias", [])):
            self._copy(
                own + "router." + kind, base + "router." + kind, count, *more
            )
            name = base + "experts.linear_fc1." + kind
            halves = self._whole(name, count, 2, width, *more)
            both = np.empty([count, *more, 2 * width], dtype=np.int64)
            for half in (0, 1):
                both[..., half::2] = np.moveaxis(halves[:, half], 1, -1)
            end = "" if kind == "weight" else "_bias"
            self._add(own + "experts.gate_up_proj" + end, name, both)
        name = base + "experts.linear_fc2."
        down = self._whole(name + "weight", count, self.hidden, width)
        self._add(
            own + "experts.down_proj", name + "weight", down.swapaxes(1, 2)
        )
        self._copy(
            own + "experts.down_proj_bias", name + "bias", count, self.hidden
        )

    def _gpt2(self):
        c = self.config
        for own, base, shape in (
            ("wte.weight", "embedding.word_embeddings.weight",
             (c["vocab_size"], self.hidden)),
            ("wpe.weight", "embedding.position_embeddings.weight",
             (c["n_positions"], self.hidden)),
            ("ln_f.weight", "decoder.final_layernorm.weight", (self.hidden,)),
            ("ln_f.bias", "decoder.final_layernorm.bias", (self.hidden,)),
        ):  # fmt: skip
            self._copy("transformer." + own, base, *shape)
        for n in range(c["n_layer"]):
            self._gpt2_layer(LAYER.format(n), GPT2.format(n), c["n_inner"])

    def _gpt2_layer(self, base, own, width):
        """Linears are `Conv1D`: inputs before outputs."""
        qkv = base + "self_attention.linear_qkv."
        for own_norm, norm in (
            ("ln_1.", qkv + "layer_norm_"),
            ("ln_2.", base + "mlp.linear_fc1.layer_norm_"),
        ):
            for kind in ("weight", "bias"):
                self._copy(own + own_norm + kind, norm + kind, self.hidden)
        for kind, more in (("weight", [self.hidden]), ("bias", [])):
            by_head = self._whole(qkv + kind, 3 * self.hidden, *more).reshape(
                self.heads, 3, self.dim, *more
            )
            fused = by_head.swapaxes(0, 1).reshape(3 * self.hidden, *more)
            self._add(own + "attn.c_attn." + kind, qkv + kind, fused.T)
        for name, linear, rows, columns in (
            ("attn.c_proj.", "self_attention.linear_proj.", self.hidden,
             self.hidden),
            ("mlp.c_fc.", "mlp.linear_fc1.", width, self.hidden),
            ("mlp.c_proj.", "mlp.linear_fc2.", self.hidden, width),
        ):  # fmt: skip
            weight = self._whole(base + linear + "weight", rows, columns)
            self._add(own + name + "weight", base + linear + "weight", weight.T)
            self._copy(own + name + "bias", base + linear + "bias", rows)

    def _nemotron_h(self):
        """One block behind one norm per layer, its letter says which."""
        c = self.config
        vocabulary = c["vocab_size"], self.hidden
        for own, base, shape in (
            ("model.embeddings.weight", "embedding.word_embeddings.weight",
             vocabulary),
            ("model.norm_f.weight", "decoder.final_norm.weight",
             (self.hidden,)),
            ("lm_head.weight", "output_layer.weight", vocabulary),
        ):  # fmt: skip
            self._copy(own, base, *shape)
        blocks = {
            "M": ("mixer.in_proj.layer_norm_", self._mixer),
            "*": ("self_attention.linear_qkv.layer_norm_", self._grouped),
            "-": ("mlp.linear_fc1.layer_norm_", self._plain_mlp),
            "E": ("pre_mlp_layernorm.", self._plain_experts),
        }
        for n, letter in enumerate(c["hybrid_override_pattern"]):
            base, own = LAYER.format(n), HF.format(n)
            norm, block = blocks[letter]
            self._copy(own + "norm.weight", base + norm + "weight", self.hidden)
            block(base, own + "mixer.")

    def mixer_parts(self):
        """Rows of z, x, B, C and dt."""
        c = self.config
        inner = c["mamba_num_heads"] * c["mamba_head_dim"]
        states = c["n_groups"] * c["ssm_state_size"]
        return [inner, inner, states, states, c["mamba_num_heads"]]

    def _mixer(self, base, own):
        inner, _, states, _, heads = self.mixer_parts()
        convolved = inner + 2 * states
        for name, shape in (
            ("dt_bias", (heads,)),
            ("A_log", (heads,)),
            ("D", (heads,)),
            ("in_proj.weight", (inner + convolved + heads, self.hidden)),
            ("conv1d.weight", (convolved, 1, self.config["conv_kernel"])),
            ("conv1d.bias", (convolved,)),
            ("norm.weight", (inner,)),
            ("out_proj.weight", (self.hidden, inner)),
        ):
            self._copy(own + name, base + "mixer." + name, *shape)

    def _grouped(self, base, own):
        name = base + "self_attention.linear_qkv.weight"
        per = self.heads // self.groups
        rows = (self.heads + 2 * self.groups) * self.dim
        parts = np.split(
            self._whole(name, rows, self.hidden).reshape(
                self.groups, per + 2, self.dim, self.hidden
            ),
            [per, per + 1],
            axis=1,
        )
        for letter, part in zip("qkv", parts, strict=True):
            self._add(
                own + f"{letter}_proj.weight",
                name,
                part.reshape(-1, self.hidden),
            )
        self._copy(
            own + "o_proj.weight",
            base + "self_attention.linear_proj.weight",
            self.hidden,
            self.heads * self.dim,
        )

    def _up_and_down(self, base, own, *shape, hidden=None):
        """Without a gate; of shape rows, or experts and rows."""
        *experts, width = shape
        hidden = hidden or self.hidden
        weight = "" if experts else ".weight"
        for name, linear, sizes in (
            ("up_proj", "linear_fc1", (width, hidden)),
            ("down_proj", "linear_fc2", (hidden, width)),
        ):
            self._copy(
                own + name + weight, base + linear + ".weight", *experts, *sizes
            )

    def _plain_mlp(self, base, own):
        self._up_and_down(base + "mlp.", own, self.config["intermediate_size"])

    def _plain_experts(self, base, own):
        c, mlp = self.config, base + "mlp."
        count = c["n_routed_experts"]
        self._copy(
            own + "gate.weight", mlp + "router.weight", count, self.hidden
        )
        self._copy(
            own + "gate.e_score_correction_bias",
            mlp + "router.expert_bias",
            count,
        )
        latent = c.get("moe_latent_size")
        if latent:
            for name, shape in (
                ("fc1_latent_proj.weight", (latent, self.hidden)),
                ("fc2_latent_proj.weight", (self.hidden, latent)),
            ):
                self._copy(own + name, mlp + name, *shape)
        self._up_and_down(
            mlp + "experts.", own + "experts.", count,
            c["moe_intermediate_size"], hidden=latent,
        )  # fmt: skip
        self._up_and_down(
            mlp + "shared_experts.",
            own + "shared_experts.",
            c["moe_shared_expert_intermediate_size"],
        )

    # What frameworks make of it.

    def of(self, framework):
        return getattr(self, "_" + framework)()

    def _take_experts(self, tensors):
        """Takes the experts out: {prefix: {projection: one by one}}."""
        found = {}
        for name in list(tensors):
            if match := re.match(r"(.*\.mlp\.)experts\.\d+\.(\w+)_proj", name):
                by_kind = found.setdefault(match[1], {})
                by_kind.setdefault(match[2], []).append(tensors.pop(name))
        return found

    @staticmethod
    def _gate_and_up(experts):
        return Tensor.stacked(
            [
                Tensor.fused(pair)
                for pair in zip(experts["gate"], experts["up"], strict=True)
            ]
        )

    def _huggingface(self):
        """Models of transformers 5: experts stacked; Phi-3 has its fusions."""
        out = dict(self.checkpoint)
        for prefix, experts in self._take_experts(out).items():
            out[prefix + "experts.gate_up_proj"] = self._gate_and_up(experts)
            out[prefix + "experts.down_proj"] = Tensor.stacked(experts["down"])
        if self.type == "phi3":
            self._fuse(out, "qkv_proj", ("q_proj", "k_proj", "v_proj"))
            self._fuse(out, "gate_up_proj", ("gate_proj", "up_proj"))
        return out

    @staticmethod
    def _fuse(tensors, name, parts):
        for first in [key for key in tensors if f".{parts[0]}." in key]:
            keys = [first.replace(parts[0], part) for part in parts]
            if all(key in tensors for key in keys):
                fused = Tensor.fused([tensors.pop(key) for key in keys])
                tensors[first.replace(parts[0], name)] = fused

    def _vllm_gpt_oss(self):
        """`hf_to_vllm_mapper` and `_load_weights_other` of vLLM's
        models/gpt_oss.py: experts are turned, gate and up stay in turns. The
        bias of w2 is on the first rank alone, others have zeros."""
        out = {}
        for name, tensor in self.checkpoint.items():
            elements = tensor.elements
            name = name.replace(".self_attn.", ".attn.")
            name = name.replace("model.embed_tokens", "model.embedding")
            for own, theirs in (("gate_up_proj", "w13"), ("down_proj", "w2")):
                if f".{own}_bias" in name:
                    name = name.replace(f"{own}_bias", f"{theirs}_bias")
                elif f".{own}" in name:
                    name = name.replace(own, f"{theirs}_weight")
                    elements = elements.swapaxes(1, 2)
            if name.endswith("w2_bias"):
                rest = (self.expert_ways - 1) * self.hidden
                elements = np.pad(
                    elements, ((0, 0), (0, rest)), constant_values=PADDING
                )
            out[name] = Tensor(tensor.of, elements)
        self._fuse(out, "qkv_proj", ("q_proj", "k_proj", "v_proj"))
        return out

    def _vllm_gpt2(self):
        """`load_weights` of models/gpt2.py turns what is of a Conv1D."""
        return {
            name: Tensor(tensor.of, tensor.elements.T)
            if re.search(r"\.c_\w+\.weight$", name)
            else tensor
            for name, tensor in self.checkpoint.items()
        }

    def _vllm_llama4_text(self):
        """`permute_qk_weight_for_rotary` and `load_moe_expert_weights` of
        models/llama4.py."""
        out = {}
        for name, tensor in self.checkpoint.items():
            elements = tensor.elements
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                pairs = elements.reshape(-1, self.dim // 2, 2, self.hidden)
                elements = pairs.swapaxes(1, 2).reshape(elements.shape)
            for own, theirs in (("gate_up_proj", "w13"), ("down_proj", "w2")):
                if f".experts.{own}" in name:
                    name = name.replace(own, theirs + "_weight")
                    elements = elements.swapaxes(1, 2)
            out[name] = Tensor(tensor.of, elements)
        self._fuse(out, "qkv_proj", ("q_proj", "k_proj", "v_proj"))
        self._fuse(out, "gate_up_proj", ("gate_proj", "up_proj"))
        return out

    def _vllm_nemotron_h(self):
        """`hf_to_vllm_mapper` of models/nemotron_h.py, and FusedMoE without a
        gate. `A_log` is what `A` is made of."""
        names = (
            ("embeddings", "embed_tokens"),
            (".experts.up_proj", ".experts.w13_weight"),
            (".experts.down_proj", ".experts.w2_weight"),
        )
        out = {}
        for name, tensor in self.checkpoint.items():
            for own, theirs in names:
                name = name.replace(own, theirs)
            out[name] = tensor
        self._fuse(out, "qkv_proj", ("q_proj", "k_proj", "v_proj"))
        return out

    def _vllm(self):
        """`packed_modules_mapping` and FusedMoE of vLLM's model files."""
        out = getattr(self, "_vllm_" + self.type, self._vllm_others)()
        for name in (
            "model.embed_tokens.weight",
            "model.embedding.weight",
            "transformer.wte.weight",
            "lm_head.weight",
        ):
            if name in out:  # rows up to a multiple of 64
                rows = out[name].elements
                rest = -len(rows) % 64
                padded = np.pad(
                    rows, ((0, rest), (0, 0)), constant_values=PADDING
                )
                out[name] = Tensor(out[name].of, padded)
        return out

    def _vllm_others(self):
        out = dict(self.checkpoint)
        for prefix, experts in self._take_experts(out).items():
            if self.type == "mixtral":
                router = out.pop(prefix + "gate.weight")
                prefix = prefix.replace(".mlp.", ".block_sparse_moe.")
                out[prefix + "gate.weight"] = router
            out[prefix + "experts.w13_weight"] = self._gate_and_up(experts)
            out[prefix + "experts.w2_weight"] = Tensor.stacked(experts["down"])
        if not self.latent:
            self._fuse(out, "qkv_proj", ("q_proj", "k_proj", "v_proj"))
        self._fuse(out, "fused_qkv_a_proj", ("q_a_proj", "kv_a_proj_with_mqa"))
        self._fuse(out, "gate_up_proj", ("gate_proj", "up_proj"))
        return out

    def _torchtitan(self):
        """What torchtitan's own adapter makes of the checkpoint."""
        import torch

        adapter = torchtitan_adapter(self)
        # The adapter moves elements: which tensor they are of goes beside them.
        names = sorted({tensor.of for tensor in self.checkpoint.values()})
        marked = {
            name: torch.from_numpy(
                tensor.elements * len(names) + names.index(tensor.of)
            )
            for name, tensor in self.checkpoint.items()
        }
        if self.type == "gpt_oss":
            found = titan_gpt_oss(self, adapter, marked)
        else:
            found = adapter.from_hf(marked)
        out = {}
        for name, tensor in found.items():
            elements = tensor.numpy()
            of = {names[i] for i in np.unique(elements % len(names))}
            assert len(of) == 1, name
            out[name] = Tensor(of.pop(), elements // len(names))
        return out

    def _megatron(self):
        """Megatron-Core's own, of which the model's are made."""
        out = {}
        for base, shape in self.shapes.items():
            whole = numbers(*shape)
            if ".mlp.experts." in base:
                if self.type == "gpt_oss" and "linear_fc1" in base:
                    whole = whole.reshape(shape[0], -1, *shape[3:])
                for e in range(self.experts):
                    out[f"{base}{e}"] = Tensor(base, whole[e])
            elif "linear_qkv_down" in base:
                ranks = self.config["q_lora_rank"]
                for letters, part in (
                    ("q", whole[:ranks]),
                    ("kv", whole[ranks:]),
                ):
                    name = base.replace("linear_qkv", f"linear_{letters}")
                    out[name] = Tensor(base, part)
            else:
                out[base] = Tensor(base, whole)
        return out


def titan_gpt_oss(truth, adapter, marked):
    """The adapter reads what the published checkpoint becomes, whose experts
    are rows of outputs, and leaves out the dims that the model's own names
    have at their end."""
    from types import SimpleNamespace as Named

    import torch
    from torchtitan.models.gpt_oss.moe import GptOssGroupedExperts

    published = {}
    for name, tensor in marked.items():
        if name.endswith(("gate_up_proj", "down_proj")):
            name, tensor = name + "_blocks", tensor.transpose(1, 2)
        published[name] = tensor
    with torch.device("meta"):
        experts = GptOssGroupedExperts(
            Named(
                dim=truth.hidden,
                hidden_dim=truth.config["intermediate_size"],
                num_experts=truth.experts,
                swiglu_limit=7.0,
            )
        )
    shapes = {n: p.shape for n, p in experts.named_parameters()}
    full = {name.rsplit("_", 1)[0]: name for name in shapes}
    out = {}
    for name, tensor in adapter.from_hf(published).items():
        prefix, last = name.rsplit(".", 1)
        if ".inner_experts." in name:
            assert tensor.shape == shapes[full[last]], name
            name = f"{prefix}.{full[last]}"
        out[name] = tensor
    return out


def torchtitan_adapter(truth):
    from types import SimpleNamespace as Named

    from torchtitan.models.common.rope import ComplexRoPE, CosSinRoPE
    from torchtitan.models.deepseek_v3.state_dict_adapter import (
        DeepSeekV3StateDictAdapter,
    )
    from torchtitan.models.gpt_oss.state_dict_adapter import (
        GptOssStateDictAdapter,
    )
    from torchtitan.models.llama3.state_dict_adapter import (
        Llama3StateDictAdapter,
    )
    from torchtitan.models.qwen3.state_dict_adapter import (
        Qwen3StateDictAdapter,
    )

    adapter, rope = {
        "llama": (Llama3StateDictAdapter, ComplexRoPE),
        "qwen3": (Qwen3StateDictAdapter, CosSinRoPE),
        "qwen3_moe": (Qwen3StateDictAdapter, CosSinRoPE),
        "deepseek_v3": (DeepSeekV3StateDictAdapter, ComplexRoPE),
        "gpt_oss": (GptOssStateDictAdapter, CosSinRoPE),
    }[truth.type]
    attention = Named(
        n_heads=truth.heads,
        n_kv_heads=truth.groups,
        head_dim=truth.dim,
        q_lora_rank=truth.config.get("q_lora_rank") or 0,
        rope=object.__new__(rope.Config),
    )
    moe = Named(num_experts=truth.experts) if truth.experts else None
    layer = Named(attention=attention, moe=moe)
    model = Named(
        layers=[layer] * truth.config["num_hidden_layers"],
        dim=truth.hidden,
        enable_weight_tying=bool(truth.config.get("tie_word_embeddings")),
    )
    return adapter(model, None)
