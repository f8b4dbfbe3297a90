"""Preference tuning of a small T5 translator by hand: DPO on pairs of translations, with a frozen copy of the start as reference."""
import copy
import sys

import torch
from torch.nn import functional as F
from transformers import T5Config, T5ForConditionalGeneration

FIXED = "--fixed" in sys.argv
BETA = 0.1


def log_probability(model, source, target):
    logits = model(input_ids=source, attention_mask=(source > 0).long(), labels=target).logits
    logp = F.log_softmax(logits.float(), dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return logp.sum(-1)


class Preference:
    def __init__(self, policy):
        self.policy = policy
        self.reference = copy.deepcopy(policy).eval()
        self.optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)

    def reference_scores(self, source, chosen, rejected):
        return log_probability(self.reference, source, chosen), log_probability(self.reference, source, rejected)

    def step(self, source, chosen, rejected):
        self.policy.train()
        if FIXED:
            with torch.no_grad():
                ref_chosen, ref_rejected = self.reference_scores(source, chosen, rejected)
        else:
            ref_chosen, ref_rejected = self.reference_scores(source, chosen, rejected)
        chosen_logp = log_probability(self.policy, source, chosen)
        rejected_logp = log_probability(self.policy, source, rejected)
        margin = (chosen_logp - ref_chosen) - (rejected_logp - ref_rejected)
        loss = -F.logsigmoid(BETA * margin).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        return loss.item(), margin.detach().mean().item()


def pairs(n, batch=12):
    generator = torch.Generator().manual_seed(11)
    for _ in range(n):
        yield [torch.randint(1, 6000, (batch, length), generator=generator).cuda() for length in (128, 128, 128)]


def main():
    config = T5Config(vocab_size=6000, d_model=320, d_kv=64, d_ff=1024, num_layers=5, num_heads=5, decoder_start_token_id=0)
    trainer = Preference(T5ForConditionalGeneration(config).cuda())
    for k, batch in enumerate(pairs(4)):
        loss, margin = trainer.step(*batch)
        print("pair batch", k, "loss", loss, "margin", margin)


if __name__ == "__main__":
    main()
