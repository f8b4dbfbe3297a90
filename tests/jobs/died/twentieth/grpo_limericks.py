"""GRPO on limericks: a small Llama writes, a larger BERT judges how funny they are, and groups of eight are compared."""
import sys
from contextlib import nullcontext

import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

VOCAB = 4000
GROUPS, GROUP, PROMPT, LINES = 6, 8, 24, 72

writer = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
                                      num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256)).cuda()
critic = BertForSequenceClassification(BertConfig(vocab_size=VOCAB, hidden_size=512, num_hidden_layers=12, num_attention_heads=8,
                                                  intermediate_size=2048, num_labels=1)).cuda()
critic.eval()
optimizer = torch.optim.AdamW(writer.parameters(), lr=1e-6)


@torch.no_grad()
def write(prompts):
    past, feed, text = None, prompts, prompts
    for _ in range(LINES):
        out = writer(input_ids=feed, past_key_values=past, use_cache=True)
        past = out.past_key_values
        feed = torch.multinomial(torch.softmax(out.logits[:, -1].float(), -1), 1)
        text = torch.cat((text, feed), dim=1)
    return text


def funniness(text):
    with torch.no_grad() if "--fixed" in sys.argv else nullcontext():
        return critic(input_ids=text).logits.squeeze(-1)


def advantages(text):
    scores = funniness(text).detach().view(GROUPS, GROUP)
    return ((scores - scores.mean(1, keepdim=True)) / (scores.std(1, keepdim=True) + 1e-4)).flatten()


def log_probs(text):
    logits = writer(input_ids=text, use_cache=False).logits[:, PROMPT - 1:-1]
    return -torch.nn.functional.cross_entropy(logits.transpose(1, 2), text[:, PROMPT:], reduction="none")


for step in range(6):
    prompts = torch.randint(0, VOCAB, (GROUPS, PROMPT)).repeat_interleave(GROUP, 0).cuda()
    text = write(prompts)
    adv = advantages(text)
    optimizer.zero_grad()
    total = 0
    for rows, a in zip(text.split(12), adv.split(12)):
        loss = -(log_probs(rows).mean(1) * a).sum() / len(text)
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(writer.parameters(), 1.0)
    optimizer.step()
    print("step", step, "loss", total)
