"""Linear probes for parts of speech on the residual stream of a GPT-NeoX: hooks pick up what each layer returns."""
import sys

import torch
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXModel

TAGS, LAYERS, WIDTH = 17, 8, 512


class Recorder:
    def __init__(self, model):
        self.states = {i: [] for i in range(LAYERS)}
        self.handles = [layer.register_forward_hook(self.hook(i)) for i, layer in enumerate(model.layers)]

    def hook(self, i):
        def listen(module, args, output):
            states = output[0] if isinstance(output, tuple) else output
            self.states[i].append(states.detach())
        return listen

    def last(self, i):
        return self.states[i][-1]

    def forget(self):
        for kept in self.states.values():
            kept.clear()

    def close(self):
        for handle in self.handles:
            handle.remove()


class Probes(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(WIDTH, TAGS) for _ in range(LAYERS))

    def forward(self, recorder, tags):
        return [nn.functional.cross_entropy(head(recorder.last(i)).flatten(0, 1), tags.flatten()) for i, head in enumerate(self.heads)]


lm = GPTNeoXModel(GPTNeoXConfig(vocab_size=12000, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8,
                                intermediate_size=4 * WIDTH, max_position_embeddings=512, use_cache=False)).cuda().eval()
recorder, probes = Recorder(lm), Probes().cuda()
optimizer = torch.optim.Adam(probes.parameters(), lr=1e-3)
g = torch.Generator().manual_seed(0)
for step in range(36):
    words = torch.randint(0, 12000, (16, 160), generator=g).cuda()
    tags = torch.randint(0, TAGS, (16, 160), generator=g).cuda()
    with torch.no_grad():
        lm(input_ids=words)
    losses = probes(recorder, tags)
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
    if "--fixed" in sys.argv:
        recorder.forget()
    if step % 9 == 8:
        print("step", step + 1, " ".join(f"{loss.item():.2f}" for loss in losses))
recorder.close()
