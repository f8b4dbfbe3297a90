"""Goes on training an OPT on radio dramas from a checkpoint of yesterday; the checkpoint has the model, the optimizer and the step."""
import os
import sys
import tempfile

import torch
from transformers import OPTConfig, OPTForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 8000


def build():
    config = OPTConfig(vocab_size=VOCABULARY, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, ffn_dim=2048,
                       max_position_embeddings=256, word_embed_proj_dim=512, pad_token_id=1)
    return OPTForCausalLM(config)


def yesterday(path):
    """What the job of yesterday left: written without a GPU here."""
    model = build()
    state = {str(n): {"step": torch.tensor(40.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
             for n, p in enumerate(model.parameters())}
    state = {int(n): s for n, s in state.items()}
    groups = torch.optim.AdamW(model.parameters(), lr=2e-4).state_dict()["param_groups"]
    torch.save({"model": model.state_dict(), "optimizer": {"state": state, "param_groups": groups}, "step": 40}, path)


class Session:
    def __init__(self, path):
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
        self.model = build().to("cuda")
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.start = self.checkpoint["step"]

    def run(self, steps):
        generator = torch.Generator().manual_seed(self.start)
        self.model.train()
        for step in range(self.start, self.start + steps):
            ids = torch.randint(4, VOCABULARY, (4, 128), generator=generator).to("cuda")
            loss = self.model(input_ids=ids, labels=ids).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            print("step", step, "loss", loss.item())


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "dramas.pt")
    yesterday(file)
    Session(file).run(6)
