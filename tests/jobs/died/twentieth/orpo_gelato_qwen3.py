"""Preference tuning by odds ratios (ORPO) with Accelerate: which description of a gelato flavour would sell more?"""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, LENGTH, PROMPT = 48000, 192, 40


def sequence_logps(hidden, head, ids):
    """Mean log-probability of the words of each answer."""
    logits = F.linear(hidden[:, PROMPT - 1:-1], head).float()
    logps = F.log_softmax(logits, dim=-1)
    return torch.gather(logps, 2, ids[:, PROMPT:, None]).squeeze(2).mean(1)


def orpo_loss(model, chosen, rejected, beta=0.1):
    ids = torch.cat([chosen, rejected])
    base = model.module if hasattr(model, "module") else model
    hidden = base.model(input_ids=ids, use_cache=False).last_hidden_state
    head = base.lm_head.weight
    if FIXED:
        logps = torch.cat([checkpoint(sequence_logps, h, head, i, use_reentrant=False)
                           for h, i in zip(hidden.split(1), ids.split(1))])
    else:
        logps = sequence_logps(hidden, head, ids)
    good, bad = logps.chunk(2)
    odds = (good - bad) - (torch.log1p(-good.exp().clamp(max=0.999)) - torch.log1p(-bad.exp().clamp(max=0.999)))
    return -good.mean() - beta * F.logsigmoid(odds).mean()


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    config = Qwen3Config(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=512, tie_word_embeddings=True)
    model = Qwen3ForCausalLM(config)
    g = torch.Generator().manual_seed(2)
    answers = [torch.randint(0, VOCAB, (48, LENGTH), generator=g) for _ in range(2)]
    loader = DataLoader(TensorDataset(*answers), batch_size=6, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-6)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, (chosen, rejected) in enumerate(loader):
        with accelerator.accumulate(model), accelerator.autocast():
            loss = orpo_loss(model, chosen, rejected)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(step, loss.item())


main()
