"""A small Llama in the loops that people write: outputs.py CONFIG.json FOLDER LOOP...

Each loop runs in a child of its own: FOLDER/LOOP gets its traces, FOLDER/LOOP.json PyTorch's largest allocated memory. "dropped": the loss
alone remains of the model's outputs; "kept": a variable holds them during the backward pass; "trainer": transformers' Trainer; "accelerate":
Accelerate, which converts outputs to fp32, and they are kept.
"""
import json
import os
import sys
import tempfile
import warnings

import torch
import transformers
import transformers.modeling_utils  # before the children, with PYTORCH_NVML_BASED_CUDA_CHECK so that it does not touch the GPU  # noqa: F401

warnings.filterwarnings("ignore")
ROWS, TOKENS, STEPS = 4, 512, 3


def model_of(path):
    config = transformers.AutoConfig.from_pretrained(path)
    config.use_cache = False
    with torch.device("cuda"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).train()


def batches():
    for _ in range(STEPS):
        yield torch.randint(0, 1000, (ROWS, TOKENS)).cuda()


def by_hand(model, keep):
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    output = None
    for tokens in batches():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(input_ids=tokens, labels=tokens)
            loss = output.loss
        if not keep:
            del output
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def accelerate(model):
    from accelerate import Accelerator
    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), fused=True))
    for tokens in batches():
        output = model(input_ids=tokens, labels=tokens)
        accelerator.backward(output.loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def trainer(model):
    data = [{"input_ids": [0] * TOKENS, "labels": [0] * TOKENS}] * (ROWS * STEPS)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(output_dir=folder, max_steps=STEPS, per_device_train_batch_size=ROWS, bf16=True,
                                                  logging_strategy="no", report_to=[], save_strategy="no", disable_tqdm=True)
        transformers.Trainer(model=model, args=settings, train_dataset=data, data_collator=transformers.default_data_collator).train()


LOOPS = {"dropped": lambda model: by_hand(model, False), "kept": lambda model: by_hand(model, True), "trainer": trainer,
         "accelerate": accelerate}


def main(path, folder, names):
    for name in names:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        os.environ["MEMTRACE_DIR"] = os.path.join(folder, name)
        LOOPS[name](model_of(path))
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(torch.cuda.max_memory_allocated(), f)
        sys.stdout.flush()
        sys.exit(0)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
