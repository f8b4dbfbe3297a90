# Routes mail threads of suppliers to a team (logistics, quality, finance, ...). Fine-tunes a small Qwen2 with a classification head.
import sys

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import Qwen2Config, Qwen2ForSequenceClassification, get_linear_schedule_with_warmup

TEAMS = ["logistics", "quality", "finance", "legal", "engineering"]
PAD = 0
MAX_TOKENS = 512 if "--fixed" in sys.argv else None


def load_threads(count=120):
    """Lengths are those of last quarter's export: most threads are a few mails, some go on for weeks."""
    rng = torch.Generator().manual_seed(3)
    lengths = torch.randint(60, 420, (count,), generator=rng).tolist()
    lengths[77] = 2400
    threads = []
    for n in lengths:
        ids = torch.randint(1, 9000, (n,), generator=rng)
        threads.append({"input_ids": ids, "label": int(ids[0]) % len(TEAMS)})
    return threads


def collate(rows):
    ids = [row["input_ids"][:MAX_TOKENS] for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
    return {"input_ids": padded, "attention_mask": (padded != PAD).long(), "labels": torch.tensor([row["label"] for row in rows])}


config = Qwen2Config(vocab_size=9000, hidden_size=384, intermediate_size=1152, num_hidden_layers=8, num_attention_heads=6,
                     num_key_value_heads=2, max_position_embeddings=4096, num_labels=len(TEAMS), pad_token_id=PAD)
model = Qwen2ForSequenceClassification(config).cuda()
loader = DataLoader(load_threads(), batch_size=8, collate_fn=collate)
optim = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
sched = get_linear_schedule_with_warmup(optim, 2, len(loader))

model.train()
for step, batch in enumerate(loader):
    batch = {k: v.cuda() for k, v in batch.items()}
    out = model(**batch)
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optim.step()
    sched.step()
    optim.zero_grad()
    print("step", step, "loss", round(out.loss.item(), 3))
    del out
