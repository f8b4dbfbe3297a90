"""Trains a small CLIP on fashion photographs with their captions; recall at 10 of a held-out catalogue is computed each epoch.
https://github.com/mlfoundations/open_clip/issues has threads of the kind."""
import contextlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import CLIPConfig, CLIPModel


class RecallTracker:
    """Collects the embeddings of a catalogue, and counts how often the right caption is among the first k."""

    def __init__(self, k=10):
        self.k, self.images, self.texts = k, [], []

    def add(self, images, texts):
        self.images.append(torch.nn.functional.normalize(images, dim=-1))
        self.texts.append(torch.nn.functional.normalize(texts, dim=-1))

    def compute(self):
        scores = torch.cat(self.images) @ torch.cat(self.texts).T
        top = scores.topk(self.k, dim=1).indices
        truth = torch.arange(len(scores), device=scores.device)[:, None]
        return (top == truth).any(1).float().mean().item()


class Experiment:
    def __init__(self, fixed):
        self.fixed = fixed
        torch.manual_seed(1)
        self.model = CLIPModel(self.config()).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4, weight_decay=0.2, betas=(0.9, 0.98))
        self.train_loader = DataLoader(self.catalogue(192), batch_size=32, shuffle=True)
        self.test_loader = DataLoader(self.catalogue(256), batch_size=32)

    @staticmethod
    def config():
        text = {"vocab_size": 6000, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4,
                "max_position_embeddings": 40, "eos_token_id": 2}
        vision = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 4, "image_size": 160,
                  "patch_size": 16}
        return CLIPConfig(text_config=text, vision_config=vision, projection_dim=128)

    @staticmethod
    def catalogue(n):
        return TensorDataset(torch.zeros(n, 3, 160, 160), torch.randint(3, 6000, (n, 40)))

    def train_epoch(self):
        self.model.train()
        for pixels, ids in self.train_loader:
            self.optimizer.zero_grad()
            out = self.model(input_ids=ids.cuda(), pixel_values=pixels.cuda(), return_loss=True)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return out.loss.item()

    def recall(self):
        self.model.eval()
        tracker = RecallTracker()
        with torch.inference_mode() if self.fixed else contextlib.nullcontext():
            for pixels, ids in self.test_loader:
                out = self.model(input_ids=ids.cuda(), pixel_values=pixels.cuda())
                tracker.add(out.image_embeds, out.text_embeds)
            return tracker.compute()


if __name__ == "__main__":
    experiment = Experiment("--fixed" in sys.argv)
    for epoch in range(2):
        print("epoch", epoch, "loss", experiment.train_epoch(), "recall@10", experiment.recall())
