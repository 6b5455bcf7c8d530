"""How Hugging Face's own plans cut a model, as a request's tensors and rules.

A model of transformers says how tensor parallelism cuts it (`tp_plan`, of
`base_model_tp_plan` of its config) and how expert parallelism does (`ep_plan`):
styles by the names of modules and parameters. What each style does to a
parameter is that of `transformers.distributed`, which
test/Tooling/test_capture_huggingface.py asks.
"""

import re

from .layout import CaptureError, dtype_name


def _first(shape):
    """The dim of what a linear gives: of [out, in] and of experts' [E, out,
    in]; a bias has no other."""
    return max(len(shape) - 2, 0)


def _colwise(name, shape):
    return {"tp": _first(shape)}


def _rowwise(name, shape):
    if name.rpartition(".")[2] == "bias":
        return _whole(name, shape)
    return {"tp": len(shape) - 1}


def _packed(name, shape, dim):
    if shape[dim] % 2:
        raise CaptureError(
            f"parameter {name!r} is two packed parts of dim {dim}, which has "
            f"{shape[dim]} elements"
        )
    return {"tp": dim, "blocks": [shape[dim] // 2] * 2}


def _packed_colwise(name, shape):
    if len(shape) == 1:
        return {"tp": 0}
    return _packed(name, shape, _first(shape))


def _packed_rowwise(name, shape):
    if len(shape) == 1:
        return _whole(name, shape)
    return _packed(name, shape, len(shape) - 1)


def _whole(name, shape):
    return {"tp": None}  # FSDP may cut it


#: What a style does to a parameter; of a module whose parameters have no style
#: of their own it is done to them.
_STYLES = {
    "colwise": _colwise,
    "colwise_rep": _colwise,
    "colwise_gather_output": _colwise,
    "rowwise": _rowwise,
    "rowwise_rep": _rowwise,
    "rowwise_split_input": _rowwise,
    "packed_colwise": _packed_colwise,
    "packed_rowwise": _packed_rowwise,
    "embedding_rowwise": lambda name, shape: {"tp": 0},
    "embedding_colwise": lambda name, shape: {"tp": 1},
    "grouped_gemm": lambda name, shape: {"ep": 0},
}
#: These change what is computed, not what a rank holds.
_STYLES |= dict.fromkeys(
    (
        "all_reduce",
        "ep_dispatch_experts",
        "local_params",
        "mla_kv_a_proj",
        "moe_identity_expert",
        "moe_tp_experts",
        "replicate",
        "replicated_with_grad_allreduce",
        "sequence_parallel",
    ),
    _whole,
)


def _pattern(name):
    """The name with `*` for each of its numbers, as plans have it."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)


def _plan_of(model, experts):
    plan = dict(model.tp_plan or {})
    if not experts:
        return plan
    own = model.ep_plan or {}
    if not own:
        raise CaptureError(f"{type(model).__name__} has no plan for experts")
    # What is under a rule for experts keeps none for tensor parallelism.
    kept = {
        name: style
        for name, style in plan.items()
        if not any(name == key or name.startswith(key + ".") for key in own)
    }
    return kept | own


def _rule_of(plan, name, shape):
    pattern = _pattern(name)
    style = plan.get(pattern, plan.get(pattern.rpartition(".")[0]))
    if style is None:
        return _whole(name, shape)
    if style not in _STYLES:
        raise CaptureError(
            f"the plan cuts parameter {name!r} by {style!r}, which is not known"
        )
    return _STYLES[style](name, shape)


def _first_match(rules, name):
    for rule in rules:
        parts = (re.escape(part) for part in rule["match"].split("*"))
        if re.fullmatch(".*".join(parts), name):
            return rule
    return None


def huggingface(model, experts=False):
    """{"model", "rules"} of a request, for a side with `tp`, `fsdp`, `pp` and,
    with `experts`, `ep`.

    model: of transformers, on `meta` if wanted. Its parameters are the
        request's tensors under their own names, and its persistent buffers,
        which nothing cuts; tied ones are there once.
    experts: the model's plan for expert parallelism takes the place of that
        for tensor parallelism where it says something. Such a side has `etp` 1.

    Raises CaptureError for a style that is not known, and for a model without
    the plan that is asked for.
    """
    plan = _plan_of(model, experts)
    if not plan:
        raise CaptureError(f"{type(model).__name__} has no plan")
    tensors, rules, exact = [], [], []
    parameters = dict(model.named_parameters())
    buffers = {
        name: value
        for name, value in model.state_dict().items()
        if name in dict(model.named_buffers())
    }
    for name, value in (parameters | buffers).items():
        shape = [int(size) for size in value.shape]
        tensors.append(
            {"name": name, "shape": shape, "dtype": dtype_name(value.dtype)}
        )
        cut = {"replicate": True}
        if name in parameters:
            cut = _rule_of(plan, name, shape)
        rule = {"match": _pattern(name), **cut}
        found = _first_match(rules, name)
        if found is None:
            rules.append(rule)
        elif {**found, "match": ""} != {**rule, "match": ""}:
            exact.append({**rule, "match": name})
    return {"model": {"tensors": tensors}, "rules": exact + rules}
