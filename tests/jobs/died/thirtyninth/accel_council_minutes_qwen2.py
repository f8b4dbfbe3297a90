"""Full fine-tuning of a Qwen2 on the minutes of town councils: two GPUs, Accelerate with FSDP2.   torchrun --nproc-per-node 2 ..."""
import sys

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv


class Minutes(Dataset):
    def __init__(self, n, length=96, vocab=6000):
        self.ids = torch.randint(0, vocab, (n, length), generator=torch.Generator().manual_seed(1832))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def plugin():
    options = dict(fsdp_version=2, reshard_after_forward=True, cpu_ram_efficient_loading=False)
    if FIXED:
        return FullyShardedDataParallelPlugin(auto_wrap_policy="transformer_based_wrap",
                                              transformer_cls_names_to_wrap=["Qwen2DecoderLayer"], **options)
    return FullyShardedDataParallelPlugin(**options)


def main():
    accelerator = Accelerator(fsdp_plugin=plugin())
    torch.manual_seed(4)
    config = Qwen2Config(vocab_size=6000, hidden_size=1024, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16,
                         num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=False)
    model = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    loader = DataLoader(Minutes(32), batch_size=2, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch, use_cache=False).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.3f}")
        if step == 5:
            break


main()
