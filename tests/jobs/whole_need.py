"""Three training steps (or passes without gradients) whose peak is the loss or the layers: whole_need.py KIND. Prints PyTorch's own peak."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS, TOKENS = 64000, 1024


def llama(dtype=torch.bfloat16):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=512, vocab_size=WORDS,
                         use_cache=False)
    return LlamaForCausalLM(config).to(dtype)


def train(model, loss):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    for _ in range(3):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()


def tokens(sequences=4):
    return torch.randint(0, WORDS, (sequences, TOKENS), device="cuda")


def labelled(model, sequences=4):
    ids = tokens(sequences)
    return model(input_ids=ids, labels=ids).loss


def bf16(sequences=4):
    model = llama().cuda()
    train(model, lambda: labelled(model, sequences))


def half():
    bf16(2)


def trainer():
    import tempfile
    from transformers import Trainer, TrainingArguments
    data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, WORDS, (12, TOKENS))]
    with tempfile.TemporaryDirectory() as out:
        Trainer(llama(), TrainingArguments(output_dir=out, per_device_train_batch_size=4, max_steps=3, report_to=[], save_strategy="no", bf16=False,
                                           optim="adamw_torch_fused", disable_tqdm=True, logging_strategy="no"), train_dataset=data).train()


def autocast():
    model = llama(torch.float32).cuda()

    def loss():
        ids = tokens()
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(input_ids=ids).logits.view(-1, WORDS), ids.view(-1))

    train(model, loss)


def lora():
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(llama(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"])).cuda()
    train(model, lambda: labelled(model))


def layers():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8)]).cuda()
    train(model, lambda: model(torch.randn(8192, 1024, device="cuda")).square().mean())


def classes():
    model = nn.Sequential(nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 1000)).cuda()
    train(model, lambda: F.cross_entropy(model(torch.randn(1024, 2048, device="cuda")), torch.randint(0, 1000, (1024,), device="cuda")))


def evaluation():
    model = llama().cuda().eval()
    with torch.no_grad():
        for _ in range(3):
            labelled(model)


globals()[sys.argv[1]]()
print("peak", torch.cuda.max_memory_allocated(), flush=True)
