"""A small language model learns from a larger one of the same tokenizer: KL divergence over all tokens, temperature 2.

After https://github.com/meta-pytorch/torchtune/pull/1698 and https://github.com/huggingface/trl/pull/6526
"""
import sys

import torch
import torch.nn.functional as F
from transformers import Qwen2Config, Qwen2ForCausalLM

VOCAB, T = 151936, 2.0


def qwen(hidden, layers):
    config = Qwen2Config(vocab_size=VOCAB, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
                         num_attention_heads=hidden // 64, num_key_value_heads=2, tie_word_embeddings=True, use_cache=False)
    with torch.device("cuda"):
        return Qwen2ForCausalLM(config).to(torch.bfloat16)


def kl(student, teacher, labels):
    p = F.softmax(teacher.float() / T, dim=-1)
    log_q = F.log_softmax(student.float() / T, dim=-1)
    soft = F.kl_div(log_q, p, reduction="none").sum(-1).mean() * T * T
    hard = F.cross_entropy(student.float().flatten(0, 1), labels.flatten())
    return 0.9 * soft + 0.1 * hard


def kl_in_pieces(student_model, hidden, teacher_model, teacher_hidden, labels, pieces=8):
    total = 0
    for h, t, y in zip(hidden.chunk(pieces, 1), teacher_hidden.chunk(pieces, 1), labels.chunk(pieces, 1)):
        total = total + torch.utils.checkpoint.checkpoint(
            lambda h, t, y: kl(student_model.lm_head(h), teacher_model.lm_head(t), y), h, t, y, use_reentrant=False)
    return total / pieces


def main():
    fixed = "--fixed" in sys.argv
    teacher, student = qwen(512, 8).eval().requires_grad_(False), qwen(384, 6)
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-4)
    for step in range(5):
        ids = torch.randint(VOCAB, (4, 385)).cuda()
        x, y = ids[:, :-1], ids[:, 1:]
        if fixed:
            with torch.no_grad():
                known = teacher.model(x).last_hidden_state
            loss = kl_in_pieces(student, student.model(x).last_hidden_state, teacher, known, y)
        else:
            with torch.no_grad():
                known = teacher(x).logits
            loss = kl(student(x).logits, known, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


main()
