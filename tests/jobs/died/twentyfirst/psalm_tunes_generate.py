"""Writes psalm tunes (in letters) with a GPT-NeoX and ranks them by how sure the model was."""
import sys

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

VOCAB, TUNES, NEW = 30000, 64, 160
gen = torch.Generator().manual_seed(1562)


def tune(count, length):
    return torch.randint(2, VOCAB, (count, length), generator=gen)


def pretrain(model, steps=8):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    for i in range(steps):
        ids = tune(4, 48).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", i, loss.item())


@torch.inference_mode()
def confidence(model, sequences, prompt):
    """Mean log-probability of the new tokens, eight tunes at a time."""
    scores = []
    for rows in sequences.split(8):
        per_row = []
        for row in rows:
            logits = model(row[None]).logits[0, prompt - 1:-1]
            per_row.append(logits.log_softmax(-1).gather(-1, row[prompt:, None]).mean())
        scores += [float(p) for p in per_row]
    return scores


def main():
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                                             intermediate_size=512, max_position_embeddings=256, bos_token_id=0, eos_token_id=1)).cuda()
    pretrain(model)
    model.eval()
    opening = tune(TUNES, 16).cuda()
    settings = dict(do_sample=True, temperature=0.9, top_k=40, min_new_tokens=NEW, max_new_tokens=NEW, pad_token_id=1,
                    attention_mask=torch.ones_like(opening))
    if "--fixed" in sys.argv:
        tunes = model.generate(opening, **settings)
        sure = confidence(model, tunes, 16)
    else:
        out = model.generate(opening, return_dict_in_generate=True, output_scores=True, **settings)
        tunes = out.sequences
        steps = [s.log_softmax(-1).gather(-1, tunes[:, 16 + i, None]) for i, s in enumerate(out.scores)]
        sure = torch.cat(steps, 1).mean(1).tolist()
    order = sorted(range(TUNES), key=lambda i: -sure[i])
    print("written", tuple(tunes.shape), "ranked", len(order))


main()
