"""LoRA on a small Qwen2 that modernises the wording of apprentices' indentures (1650-1800)."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv
MAX_LENGTH = 1024 if FIXED else 4096
PAD = 0


class Indentures(Dataset):
    def __init__(self, count=64):
        gen = torch.Generator().manual_seed(1701)
        lengths = torch.randint(350, 980, (count,), generator=gen).tolist()
        self.items = [torch.randint(3, 2000, (n,), generator=gen) for n in lengths]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return {"input_ids": self.items[i], "prompt": len(self.items[i]) // 2}


def collate(rows):
    ids = torch.full((len(rows), MAX_LENGTH), PAD)
    labels = torch.full((len(rows), MAX_LENGTH), -100)
    mask = torch.zeros(len(rows), MAX_LENGTH, dtype=torch.long)
    for i, row in enumerate(rows):
        n = len(row["input_ids"])
        ids[i, :n], mask[i, :n] = row["input_ids"], 1
        labels[i, row["prompt"]:n] = row["input_ids"][row["prompt"]:]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def build():
    config = Qwen2Config(vocab_size=2048, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=PAD, bos_token_id=1, eos_token_id=2)
    base = Qwen2ForCausalLM(config).to(torch.bfloat16)
    base.config.use_cache = False
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
                      task_type="CAUSAL_LM")
    return get_peft_model(base, lora).cuda()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build()
    model.print_trainable_parameters()
    loader = DataLoader(Indentures(), batch_size=8, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    model.train()
    for step, batch in enumerate(loader):
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.3f}")
