"""
Fine-tunes DistilBERT to tag grammatical case in Finnish, and afterwards looks at how the representation of each layer has drifted.
"""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
from transformers import DistilBertConfig, DistilBertForTokenClassification

CASES, VOCAB = 16, 9000
summarise = "--fixed" in sys.argv


class LayerRecorder:
    def __init__(self, model):
        self.outputs = defaultdict(list)
        self.handles = [layer.register_forward_hook(self.recorder(i)) for i, layer in enumerate(model.distilbert.transformer.layer)]

    def recorder(self, i):
        def hook(module, inputs, output):
            hidden = output[0] if isinstance(output, tuple) else output
            if summarise:
                hidden = hidden.detach().mean(dim=(0, 1)).cpu()
            self.outputs[i].append(hidden)
        return hook

    def drift(self, i):
        first, last = self.outputs[i][0], self.outputs[i][-1]
        if not summarise:
            first, last = first.mean(dim=(0, 1)), last.mean(dim=(0, 1))
        return torch.dist(first, last).item()

    def close(self):
        for handle in self.handles:
            handle.remove()


config = DistilBertConfig(vocab_size=VOCAB, dim=512, hidden_dim=2048, n_layers=6, n_heads=8, max_position_embeddings=128, num_labels=CASES)
model = DistilBertForTokenClassification(config).cuda()
recorder = LayerRecorder(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
generator = torch.Generator().manual_seed(1543)

model.train()
for step in range(24):
    ids = torch.randint(0, VOCAB, (16, 128), generator=generator)
    cases = torch.randint(0, CASES, (16, 128), generator=generator)
    logits = model(input_ids=ids.cuda()).logits
    loss = nn.functional.cross_entropy(logits.view(-1, CASES), cases.view(-1).cuda())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 4 == 0:
        print("step", step, "loss", loss.item())

for layer in range(config.n_layers):
    print("layer", layer, "drift", recorder.drift(layer))
recorder.close()
