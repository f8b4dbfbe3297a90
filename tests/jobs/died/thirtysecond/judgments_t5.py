"""Summaries of court judgments. Starts from the weights of our run on news articles."""
import os
import sys
import tempfile
import torch
from transformers import T5Config, T5ForConditionalGeneration

VOCAB = 16000


def new_model():
    return T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, d_model=512, d_kv=64, d_ff=1536, num_layers=5, num_heads=8,
                                               decoder_start_token_id=0, feed_forward_proj="gated-gelu"))


def write_news_run(path):
    """what the run on news articles left on disk"""
    model = new_model()
    weights = model.state_dict()
    moments = {i: {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)} for i, p in enumerate(model.parameters())}
    torch.save({"epoch": 12, "model": weights, "optimizer": moments}, path)


def load_run(path):
    ckpt = torch.load(path, map_location="cpu" if "--fixed" in sys.argv else "cuda")
    model = new_model().cuda()
    model.load_state_dict(ckpt["model"])
    print("loaded epoch", ckpt["epoch"])
    return model, ckpt


def get_batch(gen, n=2):
    src = torch.randint(2, VOCAB, (n, 256), generator=gen)
    tgt = torch.randint(2, VOCAB, (n, 64), generator=gen)
    return src.cuda(), tgt.cuda()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        news = os.path.join(folder, "news_e12.pt")
        write_news_run(news)
        model, ckpt = load_run(news)
    start_epoch = ckpt["epoch"] + 1
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    gen = torch.Generator().manual_seed(3)
    model.train()
    for epoch in range(start_epoch, start_epoch + 2):
        for it in range(4):
            src, tgt = get_batch(gen)
            loss = model(input_ids=src, labels=tgt).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
