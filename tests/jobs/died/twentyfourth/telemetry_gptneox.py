"""A language model over the telemetry of satellites, each reading quantised to one of 1024 tokens; surprising readings raise an alarm."""
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPTNeoXConfig, Trainer, TrainingArguments

CONTEXT = 2048


class Passes(torch.utils.data.Dataset):
    """One pass over the ground station is one sequence."""

    def __init__(self, passes):
        self.passes, self.phase = passes, torch.linspace(0, 60, CONTEXT)

    def __len__(self):
        return self.passes

    def __getitem__(self, index):
        curve = torch.sin(self.phase * (1 + index % 7) + index) * 400 + 512
        tokens = curve.round().long().clamp(0, 1023)
        return {"input_ids": tokens, "labels": tokens}


def build_model(heatmaps: bool = True):
    """With heatmaps, operators may ask for attention maps of an alarm in the console."""
    config = GPTNeoXConfig(vocab_size=1024, hidden_size=256, num_hidden_layers=6, num_attention_heads=8, intermediate_size=1024,
                           max_position_embeddings=CONTEXT, use_cache=False, hidden_dropout=0.0, attention_dropout=0.0)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager" if heatmaps else "sdpa")


def main(out: Path):
    model = build_model(heatmaps="--fixed" not in sys.argv)
    print(f"{model.num_parameters() / 1e6:.1f} M parameters")
    arguments = TrainingArguments(
        output_dir=str(out), per_device_train_batch_size=2, max_steps=6, learning_rate=6e-4, lr_scheduler_type="cosine", warmup_steps=2,
        weight_decay=0.1, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=Passes(48)).train()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
