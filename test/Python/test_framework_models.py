"""Models as Hugging Face and Megatron-Core build them: weights go over, logits
of both agree, weights come back. And training jobs that change framework."""

from conftest import run_apart
from test_examples import needs

CASES = (
    "llama", "llama-fsdp", "llama-tied", "qwen3_moe", "qwen3_moe-fsdp",
    "deepseek_v3", "gpt2", "gpt2-fsdp", "gpt_oss", "gpt_oss-fsdp",
    "llama4_text", "qwen3_next", "qwen3_next-fsdp", "nemotron_h",
    "nemotron_h-fsdp",
)  # fmt: skip
TRAINED = ["llama", "llama-fsdp", "qwen3_moe", "qwen3_moe-fsdp"]


@needs("megatron", "transformers")
def test_logits_of_both_frameworks_agree():
    printed = run_apart("framework_models.py", *CASES)
    told = {line.split(":")[0] for line in printed.splitlines()}
    assert told == set(CASES), printed


@needs("megatron", "transformers")
def test_training_goes_on_in_the_other_framework():
    printed = run_apart("framework_training.py")
    told = [line.split(":")[0] for line in printed.splitlines()]
    assert told == TRAINED, printed
