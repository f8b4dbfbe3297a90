"""Fine-tunes a Gemma 2 with a multilingual vocabulary on questions and answers of old catechisms."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Gemma2Config, Gemma2ForCausalLM

VOCAB = 200_000


def make_model():
    cfg = Gemma2Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=64, query_pre_attn_scalar=64, sliding_window=256, max_position_embeddings=1024,
                       final_logit_softcapping=30.0, attn_logit_softcapping=50.0, use_cache=False)
    return Gemma2ForCausalLM(cfg).cuda()


def piece_loss(head, cap, hidden, labels):
    logits = torch.tanh(head(hidden) / cap) * cap
    return F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")


def lm_loss(model, ids, mask, labels):
    if "--fixed" not in sys.argv:
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1].flatten(0, 1)
    labels = labels[:, 1:].flatten()
    total = 0
    for h, l in zip(hidden.split(128), labels.split(128)):
        total = total + checkpoint(piece_loss, model.lm_head, model.config.final_logit_softcapping, h, l, use_reentrant=False)
    return total / (labels != -100).sum()


class Catechism(torch.utils.data.IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(1563)
        while True:
            question, answer = torch.randint(20, 60, (2,), generator=g).tolist()
            ids = torch.randint(4, VOCAB, (384,), generator=g)
            labels = ids.clone()
            labels[:question] = -100
            yield ids, torch.ones_like(ids), labels


def main():
    model = make_model().train()
    no_decay = [p for n, p in model.named_parameters() if "norm" in n]
    decay = [p for n, p in model.named_parameters() if "norm" not in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=2e-5)
    loader = iter(torch.utils.data.DataLoader(Catechism(), batch_size=4))
    for step in range(5):
        ids, mask, labels = (x.cuda() for x in next(loader))
        loss = lm_loss(model, ids, mask, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{step=} loss={loss.item():.4f}")


main()
