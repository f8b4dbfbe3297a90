"""Which of 240 functions should the assistant call? A RoBERTa classifier over the user's request, with a dev check after each round."""
import sys
from dataclasses import dataclass

import torch
from torch import nn
from transformers import RobertaConfig, RobertaModel


@dataclass
class Settings:
    functions: int = 240
    vocab: int = 9000
    length: int = 96
    train_batch: int = 16
    dev_batch: int = 128
    rounds: int = 2
    fixed: bool = "--fixed" in sys.argv


S = Settings()
rand = torch.Generator().manual_seed(99)


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = RobertaModel(RobertaConfig(
            vocab_size=S.vocab, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
            max_position_embeddings=130, pad_token_id=1), add_pooling_layer=False)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(384, S.functions)

    def forward(self, ids):
        return self.head(self.drop(self.encoder(input_ids=ids).last_hidden_state.mean(1)))


def requests(batches, size):
    for _ in range(batches):
        yield torch.randint(3, S.vocab, (size, S.length), generator=rand), torch.randint(0, S.functions, (size,), generator=rand)


def accuracy(router):
    router.eval()
    hits = seen = 0
    for ids, function in requests(5, S.dev_batch):
        top3 = router(ids.cuda()).topk(3, dim=-1).indices.cpu()
        hits += (top3 == function[:, None]).any(1).sum().item()
        seen += len(ids)
    return hits / seen


if S.fixed:
    accuracy = torch.inference_mode()(accuracy)

router = Router().cuda()
optimizer = torch.optim.AdamW(router.parameters(), lr=3e-5)
for r in range(S.rounds):
    router.train()
    for ids, function in requests(6, S.train_batch):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(router(ids.cuda()), function.cuda())
        loss.backward()
        optimizer.step()
    print(f"round {r}: loss {loss.item():.3f}, top-3 accuracy {accuracy(router):.3f}")
