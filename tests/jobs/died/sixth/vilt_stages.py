"""Trains a ViLT to answer questions about shelves of a shop, in two stages, each with an optimizer and a schedule of its own.
"""
import gc
import sys

import torch
from transformers import ViltConfig, ViltForQuestionAnswering

FIXED = "--fixed" in sys.argv


class Stage:
    def __init__(self, name, lr, steps, betas=(0.9, 0.999)):
        self.name, self.lr, self.steps, self.betas = name, lr, steps, betas
        self.optimizer = self.schedule = None

    def start(self, model):
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=self.lr, betas=self.betas)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, self.lr, total_steps=self.steps + 1)

    def finish(self):
        if FIXED:
            self.optimizer = self.schedule = None
            gc.collect()


class Shop:
    def __init__(self):
        config = ViltConfig(vocab_size=12000, hidden_size=768, num_hidden_layers=10, num_attention_heads=12, intermediate_size=3072, image_size=128,
                            patch_size=32, max_image_length=-1, max_position_embeddings=40, num_labels=100)
        self.model = ViltForQuestionAnswering(config)
        self.model.cuda().train()

    def batches(self, n, size=4):
        for _ in range(n):
            yield {
                "input_ids": torch.randint(0, 12000, (size, 24)),
                "token_type_ids": torch.zeros(size, 24, dtype=torch.long),
                "pixel_values": torch.randn(size, 3, 128, 128),
            }, torch.rand(size, 100)

    def answer(self, batch):
        embedded = self.model.vilt.embeddings.text_embeddings(input_ids=batch["input_ids"], token_type_ids=batch["token_type_ids"])
        patches = self.model.vilt.embeddings.patch_embeddings(batch["pixel_values"]).flatten(2).transpose(1, 2)
        hidden = torch.cat([embedded, patches], 1)
        for layer in self.model.vilt.encoder.layer:
            out = layer(hidden)
            hidden = out[0] if isinstance(out, tuple) else out
        return self.model.classifier(self.model.vilt.layernorm(hidden)[:, 0])

    def step(self, stage, batch, target):
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = torch.nn.functional.binary_cross_entropy_with_logits(self.answer(batch), target.cuda())
        loss.backward()
        stage.optimizer.step()
        stage.schedule.step()
        stage.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def run(self, stages):
        for stage in stages:
            stage.start(self.model)
            for n, (batch, target) in enumerate(self.batches(stage.steps)):
                print(stage.name, n, self.step(stage, batch, target))
            stage.finish()


Shop().run([Stage("captions", 1e-4, 4), Stage("questions", 2e-5, 4, (0.9, 0.98))])
