"""A small StableLM learns names of boats; a few proposals for each kind of boat are drawn after training."""
import sys

import torch
from transformers import GenerationConfig, StableLmConfig, StableLmForCausalLM

VOCAB, PER_PROMPT = 1500, 64
generator = torch.Generator().manual_seed(5)


class NameGenerator:
    def __init__(self, model, per_call):
        self.model = model
        self.per_call = per_call

    @torch.inference_mode()
    def propose(self, prompts, wanted):
        self.model.eval()
        names = []
        settings = GenerationConfig(do_sample=True, top_k=40, temperature=1.1, max_new_tokens=24, min_new_tokens=24, pad_token_id=0,
                                    num_return_sequences=self.per_call)
        for _ in range(wanted // self.per_call):
            out = self.model.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=settings)
            names.append(out[:, prompts.shape[1]:].cpu())
        return torch.cat(names)


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for step in range(steps):
        ids = torch.randint(1, VOCAB, (16, 48), generator=generator).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


config = StableLmConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=12, num_attention_heads=6,
                        num_key_value_heads=6, max_position_embeddings=256, bos_token_id=None, eos_token_id=None)
lm = StableLmForCausalLM(config).cuda()
train(lm, 8)
prompts = torch.randint(1, VOCAB, (8, 80), generator=generator).cuda()
found = NameGenerator(lm, 8 if "--fixed" in sys.argv else PER_PROMPT).propose(prompts, PER_PROMPT)
print(found.shape[0], "names of", found.shape[1], "tokens")
