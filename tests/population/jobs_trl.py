"""TRL's trainers, on data that is already tokens."""
import os

import datasets
import torch
import transformers
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

from core import DEVICE, job
from jobs_trainers import OUTPUT, TrainerJob


@job("trl_sft", "trainers", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class SFT(TrainerJob):
    def config(self):
        return transformers.Qwen3Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width,
                                        num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4, head_dim=64, eos_token_id=2)

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = SFTConfig(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True,
            "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "dataset_kwargs": {"skip_prepare_dataset": True},
            "max_length": None, "eos_token": None, "loss_type": "nll", **self.trainer_arguments})
        rows = datasets.Dataset.from_dict({"input_ids": [[1] * self.length] * self.rows})
        self.trainer = SFTTrainer(self.model, arguments, train_dataset=rows, processing_class=tokenizer(self.vocabulary), callbacks=self.callbacks)


def triton_finds_the_device():
    """TRL's loss is a kernel of Triton, which links with a file of the driver's name."""
    device = next(path for path in os.environ["LD_PRELOAD"].replace(":", " ").split() if path.endswith("libcudasim.so"))
    directory = os.path.join(os.path.dirname(device), "libcuda")
    os.makedirs(directory, exist_ok=True)
    for name in "libcuda.so", "libcuda.so.1":
        if not os.path.lexists(os.path.join(directory, name)):
            os.symlink(device, os.path.join(directory, name))
    os.environ["TRITON_LIBCUDA_PATH"] = directory


def tokenizer(vocabulary):
    """A tokenizer of whole words, which nothing asks."""
    from tokenizers import Tokenizer, models
    words = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "<eos>": 2}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>")
