"""Writes descriptions of walks for a tourist office: several drafts for each walk, from which an editor chooses."""
import sys

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

DRAFTS = 16
WALKS_AT_A_TIME = 1 if "--fixed" in sys.argv else 12


def load():
    config = Qwen3Config(vocab_size=24000, hidden_size=512, intermediate_size=1408, num_hidden_layers=12, num_attention_heads=8,
                         num_key_value_heads=4, head_dim=64, max_position_embeddings=4096, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    return Qwen3ForCausalLM(config).to(dtype=torch.bfloat16, device="cuda").eval()


def prompts(count, length=640):
    """Stages, sights and timetables of the walk, as tokens."""
    g = torch.Generator().manual_seed(1901)
    return [torch.randint(1, 24000, (length,), generator=g) for _ in range(count)]


class Writer:
    def __init__(self, model, words=24):
        self.model = model
        self.settings = GenerationConfig(do_sample=True, temperature=0.8, top_k=40, max_new_tokens=words, num_return_sequences=DRAFTS,
                                         pad_token_id=0, eos_token_id=None, use_cache=True)

    def drafts(self, walks):
        ids = torch.stack(walks).cuda()
        tokens = self.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=self.settings)
        return tokens[:, ids.shape[1]:].cpu().view(len(walks), DRAFTS, -1)


def main():
    writer, walks = Writer(load()), prompts(24)
    for start in range(0, 24, WALKS_AT_A_TIME):
        result = writer.drafts(walks[start:start + WALKS_AT_A_TIME])
        print("walks from", start, "drafts", tuple(result.shape))


main()
