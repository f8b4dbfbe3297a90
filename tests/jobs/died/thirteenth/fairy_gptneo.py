"""Trains a small GPT-Neo on fairy tales and prints the mean loss of the epoch."""
import sys

import torch
from torch.utils.data import DataLoader
from transformers import GPTNeoConfig, GPTNeoForCausalLM

device = torch.device("cuda")
keep_number_only = "--fixed" in sys.argv

torch.manual_seed(7)
config = GPTNeoConfig(vocab_size=5000, hidden_size=256, num_layers=6, attention_types=[[["global", "local"], 3]], num_heads=4,
                      max_position_embeddings=256, window_size=64)
model = GPTNeoForCausalLM(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
tales = torch.randint(0, 5000, (160, 128))
loader = DataLoader(tales, batch_size=8, shuffle=True, drop_last=True)


def penalty(logits):
    """Keeps the normaliser of the softmax near one."""
    return 1e-4 * torch.logsumexp(logits.float(), dim=-1).pow(2).mean()


for epoch in range(2):
    model.train()
    running_loss = 0
    running_penalty = 0
    seen = 0
    for ids in loader:
        ids = ids.to(device)
        output = model(input_ids=ids, labels=ids)
        z = penalty(output.logits)
        loss = output.loss + z
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if keep_number_only:
            running_loss += output.loss.item() * len(ids)
            running_penalty += z.item() * len(ids)
        else:
            running_loss += output.loss * len(ids)
            running_penalty += penalty(output.logits) * len(ids)
        seen += len(ids)
    print("epoch", epoch, "loss", float(running_loss) / seen, "z", float(running_penalty) / seen)

model.eval()
with torch.no_grad():
    prompt = torch.randint(0, 5000, (1, 16), device=device)
    text = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, do_sample=False, pad_token_id=0)
print(text.shape)
