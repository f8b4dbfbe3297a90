"""What `make test-gpu` runs, in this order. A step that both the GPU and the simulated device run is a row of JOBS or PROBES; the cost of the
recorder is measured by COST, first, while nothing else runs."""
import collections
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWN = os.path.join(ROOT, "tests", "gpu", "jobs")
JOBS_FOLDER = os.path.join(ROOT, "tests", "jobs")
GPT2 = os.path.join(ROOT, "examples", "train_gpt2.py")

# name; script and arguments; settings of the environment; seconds that one run may take; modules that it needs
Step = collections.namedtuple("Step", "name command settings limit needs")


def own(name, script, *arguments, limit=100, needs=(), **settings):
    return Step(name, (os.path.join(OWN, script), *arguments), settings, limit, needs)


def job(name, script, *arguments, limit=90, needs=(), **settings):
    path = script if os.path.isabs(script) else os.path.join(JOBS_FOLDER, script)
    return Step(name, (path, *arguments), settings, limit, needs)


GPT = "gpt.py", "--micro-batch", "4"
HF = "hf.py", "--micro-batch", "2", "--seq", "1024"
HF_NEEDS = "transformers",

PROBES = [
    own("context, lazy", "context.py", CUDA_MODULE_LOADING="LAZY"),
    own("context, eager", "context.py", CUDA_MODULE_LOADING="EAGER"),
    own("cuBLAS", "cublas.py"),
    own("cuDNN", "cudnn.py"),
    own("attention", "attention.py"),
    own("NCCL, one rank", "nccl.py"),
]
JOBS = [
    job("GPT-2, eager, fp16", GPT2, "--batch", "12"),
    job("GPT-2, flash, bf16", GPT2, "--batch", "8", "--flash", "--dtype", "bfloat16"),
    job("gpt", *GPT),
    job("gpt, eager attention", *GPT, "--attention", "eager"),
    job("gpt, fp32", *GPT, "--dtype", "fp32"),
    job("llama of transformers", *HF, needs=HF_NEEDS),
    job("expandable segments", GPT2, "--batch", "4", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
    job("cudaMallocAsync", GPT2, "--batch", "4", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"),
    job("gpt, torch.compile", *GPT, "--compile", limit=180, needs=("triton",)),
    job("gpt, CUDA graphs", *GPT, "--graphs", "--dtype", "bf16_pure"),
    job("gpt, recompute", *GPT, "--recompute", "full"),
    job("gpt, selective recompute", *GPT, "--recompute", "selective"),
    job("gpt, fp16 scaler, clip", *GPT, "--dtype", "fp16", "--scaler", "--clip", "1"),
    job("gpt, bf16 weights", *GPT, "--dtype", "bf16_pure"),
    job("gpt, accumulation", *GPT, "--accumulate", "4"),
    job("gpt, SGD", *GPT, "--optimizer", "sgd_momentum"),
    job("gpt, AdamW foreach", *GPT, "--optimizer", "adamw_foreach"),
    job("gpt, AdamW loop", *GPT, "--optimizer", "adamw_loop"),
    job("gpt, medium", *GPT, "--layers", "24", "--hidden", "1024", "--heads", "16"),
    job("streams and threads", "streams.py"),
    job("qwen2 of transformers", *HF, "--model", "qwen2", needs=HF_NEEDS),
    job("gpt2 of transformers", *HF, "--model", "gpt2", needs=HF_NEEDS),
    job("llama, 8 layers, recompute", *HF, "--recompute", "full", "--layers", "8", needs=HF_NEEDS),
    job("llama, Trainer", *HF, "--loop", "trainer", needs=("transformers", "accelerate")),
    job("llama, LoRA", *HF, "--lora", "8", needs=("transformers", "peft")),
]
# Run by turns without and with the recorder.
COST = own("cost", "cost.py", "4", limit=75)
SHORT_COST = own("cost", "cost.py", "0.5", limit=75)
# The recorder's hook alone, if its helper library is built.
HOOK_COST = os.path.join(ROOT, "tests", "bench", "hook_cost.py")


def chosen(rows, patterns):
    """The rows whose names contain one of the patterns; all if there are none."""
    return [s for s in rows if not patterns or any(p.lower() in s.name.lower() for p in patterns)]
