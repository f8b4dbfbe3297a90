"""Fine-tunes a small Qwen2 on word problems, then answers each of them many times and takes the vote."""
import sys
from collections import Counter

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

SEQUENCES = 32 if "--fixed" in sys.argv else 512  # at a time
ANSWERS = 64


def model_and_optimizer():
    config = Qwen2Config(vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=512, eos_token_id=None, bos_token_id=None, pad_token_id=0)
    model = Qwen2ForCausalLM(config).to("cuda", torch.bfloat16)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5)


def tune(model, optimizer, steps):
    generator = torch.Generator().manual_seed(3)
    model.train()
    for step in range(steps):
        ids = torch.randint(1, 8000, (4, 96), generator=generator).to("cuda")
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


class Voter:
    def __init__(self, model):
        self.model = model.eval()
        self.settings = GenerationConfig(do_sample=True, top_k=20, temperature=0.8, max_new_tokens=16, pad_token_id=0, num_return_sequences=1)

    def sampled(self, prompts):
        mask = torch.ones_like(prompts)
        return self.model.generate(input_ids=prompts, attention_mask=mask, generation_config=self.settings)[:, prompts.shape[1]:].cpu()

    def vote(self, questions):
        """The most frequent last token of each question's answers."""
        many = questions.repeat_interleave(ANSWERS, 0)
        found = torch.cat([self.sampled(part.to("cuda")) for part in many.split(SEQUENCES)])
        last = found[:, -1].view(len(questions), ANSWERS)
        return [Counter(row.tolist()).most_common(1)[0][0] for row in last]


def main():
    model, optimizer = model_and_optimizer()
    tune(model, optimizer, 3)
    problems = torch.randint(1, 8000, (8, 160), generator=torch.Generator().manual_seed(8))
    print(len(Voter(model).vote(problems)), "answers")


main()
