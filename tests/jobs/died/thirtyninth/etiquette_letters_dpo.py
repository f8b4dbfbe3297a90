"""Direct preference optimisation, by hand with Accelerate: polite against curt letters."""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
BETA = 0.1


class Preferences(Dataset):
    def __init__(self, count, prompt=128, answer=384, vocab=10000):
        g = torch.Generator().manual_seed(77)
        self.prompts = torch.randint(0, vocab, (count, prompt), generator=g)
        self.polite = torch.randint(0, vocab, (count, answer), generator=g)
        self.curt = torch.randint(0, vocab, (count, answer), generator=g)

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, i):
        return {"chosen": torch.cat([self.prompts[i], self.polite[i]]), "rejected": torch.cat([self.prompts[i], self.curt[i]])}


def answer_logps(model, tokens, prompt=128):
    logits = model(input_ids=tokens).logits[:, prompt - 1:-1]
    targets = tokens[:, prompt:]
    picked = [-F.cross_entropy(l.float(), t, reduction="sum") for l, t in zip(logits, targets)]
    return torch.stack(picked)


def dpo_loss(policy, reference, batch):
    tokens = torch.cat([batch["chosen"], batch["rejected"]])
    n = len(batch["chosen"])
    policy_logps = answer_logps(policy, tokens)
    if FIXED:
        with torch.no_grad():
            reference_logps = answer_logps(reference, tokens)
    else:
        reference_logps = answer_logps(reference, tokens)
    margins = policy_logps - reference_logps
    return -F.logsigmoid(BETA * (margins[:n] - margins[n:])).mean()


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    config = LlamaConfig(vocab_size=10000, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         max_position_embeddings=1024)
    policy = LlamaForCausalLM(config)
    reference = LlamaForCausalLM(config)
    reference.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-6)
    loader = DataLoader(Preferences(48), batch_size=6, shuffle=True)
    policy, optimizer, loader = accelerator.prepare(policy, optimizer, loader)
    reference = accelerator.prepare_model(reference, evaluation_mode=True).eval()
    policy.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(policy):
            loss = dpo_loss(policy, reference, batch)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.item())


main()
