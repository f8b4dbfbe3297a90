"""ByT5-style model that glosses runic inscriptions (transliteration in, English out), for a digital humanities seminar."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

FIXED = "--fixed" in sys.argv


class Inscriptions(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(793)
        self.runes = torch.randint(3, 259, (n, 96), generator=g)
        self.english = torch.randint(3, 259, (n, 80), generator=g)

    def __len__(self):
        return len(self.runes)

    def __getitem__(self, i):
        return self.runes[i], self.english[i]


def make_optimizer(model):
    decay = [p for n, p in model.named_parameters() if p.dim() > 1]
    rest = [p for n, p in model.named_parameters() if p.dim() <= 1]
    if FIXED:
        return Adafactor(decay + rest, lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=1e-4)


def main():
    # the proportions of ByT5: a deep encoder and a shallow decoder
    config = T5Config(
        vocab_size=384, d_model=1024, d_kv=64, d_ff=2560, num_layers=9, num_decoder_layers=3, num_heads=12,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    model = T5ForConditionalGeneration(config).to("cuda")
    print(sum(p.numel() for p in model.parameters()) // 10 ** 6, "million parameters")
    optimizer = make_optimizer(model)
    loader = DataLoader(Inscriptions(24), batch_size=2, shuffle=True)
    model.train()
    for epoch in range(1):
        for step, (runes, english) in enumerate(loader):
            loss = model(input_ids=runes.cuda(), labels=english.cuda()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if step % 4 == 0:
                print("epoch", epoch, "step", step, "loss", loss.item())
    torch.set_grad_enabled(False)
    model.eval()
    print("validation loss", model(input_ids=runes.cuda(), labels=english.cuda()).loss.item())


main()
