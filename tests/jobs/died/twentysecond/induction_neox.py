"""When do induction heads form? Trains a small GPT-NeoX on repeated sequences and records what its attention layers write."""
import sys

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, HALF = 2000, 96


class Recorder:
    """Keeps what each attention layer adds to the residual stream, step by step."""

    def __init__(self, model):
        self.written = {}
        for i, layer in enumerate(model.gpt_neox.layers):
            layer.attention.register_forward_hook(self.for_layer(i))

    def for_layer(self, i):
        def record(module, args, output):
            out = output[0] if isinstance(output, tuple) else output
            self.written.setdefault(i, []).append(out.detach().cpu() if FIXED else out.detach())
        return record

    def norms(self):
        return {i: [w.float().norm(dim=-1)[:, HALF:].mean().item() for w in steps] for i, steps in self.written.items()}


def repeated(batch, g):
    once = torch.randint(0, VOCAB, (batch, HALF), generator=g)
    return torch.cat([once, once], 1)


def main():
    config = GPTNeoXConfig(vocab_size=VOCAB, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=768,
                           max_position_embeddings=256, use_cache=False)
    model = GPTNeoXForCausalLM(config).cuda()
    recorder = Recorder(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(1)
    for step in range(40):
        ids = repeated(16, g).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print("step", step, "loss", loss.item())
    for layer, curve in recorder.norms().items():
        print("layer", layer, "from", curve[0], "to", curve[-1])


main()
