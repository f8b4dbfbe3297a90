"""Translates a test set and keeps the scores of each token for a study of confidence.

https://github.com/huggingface/transformers/issues/17089
"""
import argparse

import torch
from transformers import MarianConfig, MarianMTModel

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
config = MarianConfig(vocab_size=32000, d_model=384, encoder_layers=4, decoder_layers=4, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
                      encoder_attention_heads=6, decoder_attention_heads=6, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
model = MarianMTModel(config).cuda().eval()
results = []
for batch in range(10):
    source = torch.randint(2, 32000, (64, 48), device="cuda")
    with torch.no_grad():
        out = model.generate(input_ids=source, attention_mask=torch.ones_like(source), num_beams=1, min_new_tokens=16, max_new_tokens=16,
                             output_scores=True, return_dict_in_generate=True)
    if args.fixed:
        results.append((out.sequences.cpu(), torch.stack([s.max(-1).values for s in out.scores]).cpu()))
    else:
        results.append(out)
print(len(results))
