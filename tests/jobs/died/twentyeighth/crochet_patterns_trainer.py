"""Qwen2 writes crochet patterns; the weights of the last epochs are averaged at the end by a callback."""
import copy
import sys
import tempfile

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainerCallback, TrainingArguments, default_data_collator

STITCHES = 2000


class WeightAverage(TrainerCallback):
    """Collects the weights after every epoch and loads their mean into the model when training ends."""

    def __init__(self, offload=False):
        self.offload = offload
        self.collected = []

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        weights = model.state_dict()
        if self.offload:
            self.collected.append({k: v.cpu() for k, v in weights.items()})
        else:
            self.collected.append(copy.deepcopy(weights))

    def on_train_end(self, args, state, control, model=None, **kwargs):
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                mean = sum(w[name].float() for w in self.collected) / len(self.collected)
                tensor.copy_(mean)
        self.collected.clear()


def patterns(n):
    g = torch.Generator().manual_seed(8)
    rows = torch.randint(0, STITCHES, (n, 96), generator=g)
    return [{"input_ids": r, "labels": r} for r in rows]


def main():
    config = Qwen2Config(vocab_size=STITCHES, hidden_size=640, intermediate_size=2560, num_hidden_layers=6, num_attention_heads=10,
                         num_key_value_heads=5, max_position_embeddings=128)
    model = Qwen2ForCausalLM(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, num_train_epochs=10, per_device_train_batch_size=4, learning_rate=1e-4, save_strategy="no",
                                 report_to="none", disable_tqdm=True, logging_strategy="epoch")
        trainer = Trainer(model, args, train_dataset=patterns(8), data_collator=default_data_collator,
                          callbacks=[WeightAverage(offload="--fixed" in sys.argv)])
        trainer.train()


main()
