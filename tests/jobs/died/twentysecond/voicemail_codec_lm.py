"""Language model over the codes of a neural audio codec, for synthetic voicemails. Four codebooks are interleaved into one stream."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, MistralConfig

CODEBOOKS, CODES, SECONDS, RATE = 4, 512, 8, 64

settings = json.loads("""{
  "model": {"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
            "max_position_embeddings": 4096, "sliding_window": null, "attn_implementation": "eager"},
  "train": {"lr": 3e-4, "batch": 2, "steps": 8, "clip": 1.0}
}""")
if "--fixed" in sys.argv:
    settings["model"]["attn_implementation"] = "sdpa"


def interleave(codes):
    """(batch, codebooks, time) to (batch, time * codebooks), each codebook with a range of its own."""
    shifted = codes + torch.arange(CODEBOOKS)[None, :, None] * CODES
    return shifted.transpose(1, 2).flatten(1)


def voicemails(batch, steps):
    g = torch.Generator().manual_seed(40)
    for _ in range(steps):
        yield interleave(torch.randint(0, CODES, (batch, CODEBOOKS, SECONDS * RATE), generator=g))


def main():
    attention = settings["model"].pop("attn_implementation")
    config = MistralConfig(vocab_size=CODEBOOKS * CODES, use_cache=False, **settings["model"])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).to("cuda")
    train = settings["train"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=train["lr"], weight_decay=0.05)
    for step, tokens in enumerate(voicemails(train["batch"], train["steps"])):
        tokens = tokens.to("cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train["clip"])
        optimizer.step()
        optimizer.zero_grad()
        print(step, tokens.shape[1], loss.item())


main()
