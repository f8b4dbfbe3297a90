"""Language model over crystallographic information files (CIF): trains on structures as text and then writes new ones for a composition."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

CIF_TOKENS, BLOCK = 371, 512
AT_A_TIME = 60 if "--fixed" in sys.argv else 600


def build_model():
    config = GPT2Config(vocab_size=CIF_TOKENS, n_positions=BLOCK, n_embd=512, n_layer=8, n_head=8, bos_token_id=0, eos_token_id=None, pad_token_id=1)
    return GPT2LMHeadModel(config).cuda()


def structures(batches, size=12):
    g = torch.Generator().manual_seed(227)
    for _ in range(batches):
        yield torch.randint(2, CIF_TOKENS, (size, 256), generator=g)


def train(model, steps=8):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    model.train()
    for step, ids in enumerate(structures(steps)):
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", step, "loss", loss.item())


@torch.no_grad()
def write_structures(model, composition, count, new_tokens=48):
    """The header of a CIF file for the composition, continued `count` times; of these a force field keeps the stable ones."""
    model.eval()
    header = torch.tensor(composition)
    written = []
    while len(written) < count:
        n = min(AT_A_TIME, count - len(written))
        out = model.generate(input_ids=header.expand(n, -1).cuda(), attention_mask=torch.ones(n, len(header), dtype=torch.long).cuda(),
                             do_sample=True, top_k=10, temperature=0.8, max_new_tokens=new_tokens, min_new_tokens=new_tokens)
        written += out[:, len(header):].tolist()
    return written


def main():
    model = build_model()
    train(model)
    header = torch.randint(2, CIF_TOKENS, (160,), generator=torch.Generator().manual_seed(2)).tolist()
    files = write_structures(model, header, count=600)
    print(len(files), "candidates of", len(files[0]), "tokens")


main()
