"""CTC training of a wav2vec2 model; the batches are sorted by nothing, and some recordings are long.

https://github.com/speechbrain/speechbrain/issues/841
"""
import argparse

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
opts = parser.parse_args()
SECONDS = [9, 12, 7, 11, 10, 38, 8, 12]
if opts.fixed:
    SECONDS = [s for s in SECONDS if s <= 20]  # --max-duration 20
config = Wav2Vec2Config(vocab_size=32, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048, conv_dim=(256,) * 7,
                        mask_time_prob=0.0, layerdrop=0.0)
model = Wav2Vec2ForCTC(config).cuda()
model.freeze_feature_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4)
model.train()
for step, seconds in enumerate(SECONDS):
    audio = torch.randn(6, 16000 * seconds, device="cuda")
    logits = model(input_values=audio).logits
    log_probs = torch.log_softmax(logits.float(), -1).transpose(0, 1)
    loss = -log_probs[:, :, 1:].mean()  # stands for the CTC loss with one alignment
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, seconds, loss.item())
