"""Writes explanations with a small OPT and measures how sure it was of each token."""
import sys

import torch
from transformers import GenerationConfig, OPTConfig, OPTForCausalLM

FIXED = "--fixed" in sys.argv


def load():
    config = OPTConfig(vocab_size=20000, hidden_size=512, ffn_dim=2048, num_hidden_layers=8, num_attention_heads=8,
                       max_position_embeddings=1024, word_embed_proj_dim=512)
    return OPTForCausalLM(config).half().cuda().eval()


class Explainer:
    def __init__(self, model, new_tokens=96):
        self.model = model
        more = {} if FIXED else {"output_hidden_states": True, "output_scores": True}
        self.settings = GenerationConfig(max_new_tokens=new_tokens, min_new_tokens=new_tokens, do_sample=False, return_dict_in_generate=True,
                                         pad_token_id=1, eos_token_id=2, bos_token_id=2, **more)

    def __call__(self, prompts):
        out = self.model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), generation_config=self.settings)
        return out

    @torch.no_grad()
    def certainty(self, out, prompt_length):
        if FIXED:
            sure = []
            for row in out.sequences:
                logits = self.model(row[None]).logits[0, prompt_length - 1:-1]
                sure.append(logits.softmax(-1).amax(-1).mean().item())
            return sure
        tops = torch.stack([s.softmax(-1).amax(-1) for s in out.scores])
        depth = len(out.hidden_states[0])
        return [*tops.mean(0).tolist(), depth]


def main():
    explain = Explainer(load())
    generator = torch.Generator().manual_seed(0)
    for n in range(2):
        prompts = torch.randint(4, 20000, (24, 160), generator=generator).cuda()
        out = explain(prompts)
        print(n, tuple(out.sequences.shape), len(explain.certainty(out, 160)))


main()
