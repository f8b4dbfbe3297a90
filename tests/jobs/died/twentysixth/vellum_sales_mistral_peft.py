# Will the lot reach its estimate?  A Mistral with LoRA reads auction descriptions of manuscripts on vellum.
import random
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import MistralConfig, MistralForSequenceClassification, get_cosine_schedule_with_warmup

random.seed(3)
MAX_LENGTH = 2048
PAD = 0


def load_lots(n):
    return [{"input_ids": [random.randint(3, 15999) for _ in range(random.randint(90, 380))], "sold": random.randint(0, 2)} for _ in range(n)]


def pad_to(rows, length):
    ids = torch.full((len(rows), length), PAD)
    mask = torch.zeros(len(rows), length, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
        mask[i, :len(row)] = 1
    return ids, mask


def collate(lots):
    rows = [lot["input_ids"][:MAX_LENGTH] for lot in lots]
    length = max(len(r) for r in rows) if "--fixed" in sys.argv else MAX_LENGTH
    ids, mask = pad_to(rows, length)
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([lot["sold"] for lot in lots])}


cfg = MistralConfig(vocab_size=16000, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                    num_key_value_heads=2, max_position_embeddings=4096, sliding_window=None, num_labels=3, pad_token_id=PAD)
model = MistralForSequenceClassification(cfg).to(device="cuda", dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.05,
                                         target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
model.print_trainable_parameters()
model.config.use_cache = False

loader = DataLoader(load_lots(48), batch_size=6, shuffle=True, collate_fn=collate)
opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
sched = get_cosine_schedule_with_warmup(opt, 2, len(loader))

model.train()
for i, batch in enumerate(loader):
    batch = {k: v.to("cuda", non_blocking=True) for k, v in batch.items()}
    out = model(**batch)
    out.loss.backward()
    opt.step()
    sched.step()
    opt.zero_grad()
    print(f"step {i}: loss {out.loss.item():.3f}")
