"""Prompt tuning by hand: twenty vectors before the text of a GPT-NeoX are trained for each of three tasks, everything else stays as it is."""
import argparse

import torch
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

TASKS = ("sentiment", "topic", "intent")


class SoftPrompt(nn.Module):
    def __init__(self, model, length=20):
        super().__init__()
        start = model.get_input_embeddings().weight[:length].detach().clone()
        self.vectors = nn.Parameter(start)

    def forward(self, embedded):
        return torch.cat([self.vectors.expand(len(embedded), -1, -1), embedded], 1)


def base(freeze):
    config = GPTNeoXConfig(vocab_size=30000, hidden_size=640, num_hidden_layers=12, num_attention_heads=10, intermediate_size=2560,
                           max_position_embeddings=512, use_cache=False)
    model = GPTNeoXForCausalLM(config).to("cuda")
    if freeze:
        for p in model.parameters():
            p.requires_grad = False
    return model.eval()


def batches(n, rows=2, length=48):
    for _ in range(n):
        yield torch.randint(0, 30000, (rows, length)).to("cuda"), torch.randint(0, 8, (rows,)).to("cuda")


def tune(model, task, steps=3):
    prompt = SoftPrompt(model).to("cuda")
    optimizer = torch.optim.AdamW(prompt.parameters(), lr=0.3, weight_decay=0.0)
    embed, verbalizer = model.get_input_embeddings(), torch.arange(100, 108, device="cuda")
    for ids, labels in batches(steps):
        states = model.gpt_neox(inputs_embeds=prompt(embed(ids))).last_hidden_state[:, -1]
        scores = model.get_output_embeddings()(states)[:, verbalizer]
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(task, "loss", loss.item())
    return prompt.vectors.detach().cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = base(freeze=options.fixed)
    prompts = {task: tune(model, task) for task in TASKS}
    print({task: tuple(vectors.shape) for task, vectors in prompts.items()})


main()
