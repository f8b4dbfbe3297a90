"""Fine-tunes every weight of a small Llama on cooking recipes, a few short rows at a time, as a tutorial for one consumer card shows it."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Adafactor, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv


class Recipes(Dataset):
    def __init__(self, n=24, length=128, vocabulary=32000):
        self.ids = torch.randint(1, vocabulary, (n, length))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        return self.ids[k]


class FineTuner:
    def __init__(self):
        torch.manual_seed(4)
        config = LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
                             num_key_value_heads=4, max_position_embeddings=512, use_cache=False)
        self.model = LlamaForCausalLM(config).to("cuda")
        self.model.gradient_checkpointing_enable()
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.loader = DataLoader(Recipes(), batch_size=2, shuffle=True)
        self.step = 0

    def make_optimizer(self, parameters):
        if FIXED:
            return Adafactor(parameters, lr=2e-5, scale_parameter=False, relative_step=False, warmup_init=False)
        return torch.optim.AdamW(parameters, lr=2e-5, betas=(0.9, 0.999), weight_decay=0.0, foreach=False)

    def loss(self, ids):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.model(input_ids=ids, labels=ids).loss

    def run(self, limit):
        self.model.train()
        for ids in self.loader:
            loss = self.loss(ids.to("cuda"))
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.step += 1
            print("step %d  loss %.4f" % (self.step, loss.item()))
            if self.step >= limit:
                break


def main():
    tuner = FineTuner()
    print("%.1f million parameters" % (sum(p.numel() for p in tuner.model.parameters()) / 1e6))
    tuner.run(limit=5)


if __name__ == "__main__":
    main()
