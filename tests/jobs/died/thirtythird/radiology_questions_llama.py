"""Answers a list of questions about one long radiology history; the history is read once and each question goes on from there."""
import copy
import sys

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
torch.manual_seed(21)
config = LlamaConfig(vocab_size=12000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12, num_key_value_heads=12,
                     max_position_embeddings=8192)
model = LlamaForCausalLM(config).to("cuda", dtype=torch.bfloat16).eval()


def tokens(n):
    return torch.randint(3, config.vocab_size, (1, n)).to("cuda")


@torch.inference_mode()
def read(history):
    cache = DynamicCache(config=config)
    for piece in history.split(512, dim=1):
        model(input_ids=piece, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache


@torch.inference_mode()
def answer(question, cache, length=12):
    words = []
    step = question
    for _ in range(length):
        logits = model(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        step = logits[:, -1].argmax(-1, keepdim=True)
        words.append(step)
    return torch.cat(words, 1).tolist()[0]


def interview(history, questions):
    base = read(history)
    start = base.get_seq_length()
    answers = []
    if FIXED:
        for question in questions:
            answers.append(answer(question, base))
            base.crop(start - base.get_seq_length())
        return answers
    branches = [copy.deepcopy(base) for _ in questions]
    for question, branch in zip(questions, branches):
        answers.append(answer(question, branch))
    return answers


for patient in range(2):
    replies = interview(tokens(5120), [tokens(24) for _ in range(14)])
    print("patient", patient, "answered", len(replies), "questions")
