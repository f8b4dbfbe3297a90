"""A Qwen3 with the full vocabulary and few layers learns the tutor's answers from logs: prompts carry no labels, answers do."""
import sys

import torch
import torch.nn.functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM, get_cosine_schedule_with_warmup

VOCAB, LENGTH, ANSWER = 151936, 768, 96
config = Qwen3Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                     head_dim=64, max_position_embeddings=1024, tie_word_embeddings=True)


class TutorLogs(torch.utils.data.IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(2)
        while True:
            ids = torch.randint(0, VOCAB, (LENGTH,), generator=g)
            labels = ids.clone()
            labels[:-ANSWER] = -100
            yield {"input_ids": ids, "labels": labels}


def answer_loss(model, input_ids, labels):
    if "--fixed" in sys.argv:
        states = model.model(input_ids=input_ids, use_cache=False).last_hidden_state[:, -ANSWER - 1:-1]
        logits, targets = model.lm_head(states), labels[:, -ANSWER:]
    else:
        logits, targets = model(input_ids=input_ids, use_cache=False).logits[:, :-1], labels[:, 1:]
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)


def main():
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 8)
    loader = torch.utils.data.DataLoader(TutorLogs(), batch_size=2)
    model.train()
    for step, batch in zip(range(6), loader):
        loss = answer_loss(model, batch["input_ids"].cuda(), batch["labels"].cuda())
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", step, "loss", loss.item())


main()
