"""Trains a Mistral on liturgical texts, sharded by Accelerate's FSDP (version 2) over two GPUs."""
import sys

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.utils.data import DataLoader, TensorDataset
from transformers import MistralConfig, MistralForCausalLM, get_cosine_schedule_with_warmup

SHAPE = dict(vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=8,
             max_position_embeddings=1024, sliding_window=None, use_cache=False)


def plugin():
    if "--fixed" in sys.argv:
        return FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=True, auto_wrap_policy="transformer_based_wrap",
                                              transformer_cls_names_to_wrap=["MistralDecoderLayer"])
    return FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=True)


def main():
    accelerator = Accelerator(mixed_precision="no", fsdp_plugin=plugin())
    torch.manual_seed(40)
    model = MistralForCausalLM(MistralConfig(**SHAPE))
    texts = torch.randint(0, SHAPE["vocab_size"], (24, 192), generator=torch.Generator().manual_seed(1))
    loader = DataLoader(TensorDataset(texts), batch_size=2, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 6)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    model.train()
    for step, (ids,) in enumerate(loader):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
