"""Call center voicebot: linear probe for caller intents on top of a HuBERT encoder."""
import argparse

import torch
import torch.nn as nn
from transformers import HubertConfig, HubertModel

INTENTS = 24


class IntentModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        d = encoder.config.hidden_size
        self.attn_pool = nn.Linear(d, 1)
        self.classifier = nn.Sequential(nn.Linear(d, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, INTENTS))

    def freeze_encoder(self):
        for p in self.encoder.parameters():
            p.requires_grad = False
        self.encoder.feature_extractor._freeze_parameters()  # it would make its input require gradients otherwise

    def head_parameters(self):
        return list(self.attn_pool.parameters()) + list(self.classifier.parameters())

    def forward(self, wav):
        h = self.encoder(wav).last_hidden_state
        w = torch.softmax(self.attn_pool(h), 1)
        return self.classifier((w * h).sum(1))


def utterances(n, batch, seconds):
    g = torch.Generator().manual_seed(4)
    for _ in range(n):
        yield torch.randn(batch, 16000 * seconds, generator=g), torch.randint(0, INTENTS, (batch,), generator=g)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=12)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    cfg = HubertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, conv_dim=(256,) * 7,
                       layerdrop=0.0, mask_time_prob=0.0)
    model = IntentModel(HubertModel(cfg))
    if args.fixed:
        model.freeze_encoder()
    model = model.cuda().train()
    # only the head is learned
    optimizer = torch.optim.AdamW(model.head_parameters(), lr=args.lr)
    for step, (wav, intent) in enumerate(utterances(args.steps, args.batch_size, 4)):
        logits = model(wav.cuda())
        loss = nn.functional.cross_entropy(logits, intent.cuda(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"[{step}] loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
