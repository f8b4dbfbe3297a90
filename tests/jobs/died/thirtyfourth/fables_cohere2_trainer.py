"""Cohere2, small, on fables; a subclass of Trainer reports the share of tokens guessed right in each logging window."""
import sys
import tempfile

import torch
from transformers import Cohere2Config, Cohere2ForCausalLM, Trainer, TrainingArguments

VOCAB = 20000


class FableTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._window = []

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        guess, truth = outputs.logits[:, :-1], inputs["labels"][:, 1:]
        if "--fixed" in sys.argv:
            guess = guess.argmax(-1).cpu()
            truth = truth.cpu()
        self._window.append((guess, truth))
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def log(self, logs, *args, **kwargs):
        right = total = 0
        for guess, truth in self._window:
            if guess.dim() == 3:
                guess = guess.argmax(-1)
            right += (guess == truth).sum().item()
            total += truth.numel()
        if total:
            logs["token_accuracy"] = right / total
        self._window.clear()
        super().log(logs, *args, **kwargs)


def fables(n=256, length=256):
    g = torch.Generator().manual_seed(600)
    return [{"input_ids": x, "labels": x} for x in torch.randint(3, VOCAB, (n, length), generator=g)]


config = Cohere2Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4,
                       num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, sliding_window=128)
with tempfile.TemporaryDirectory() as tmp:
    FableTrainer(
        model=Cohere2ForCausalLM(config),
        args=TrainingArguments(tmp, per_device_train_batch_size=8, max_steps=16, logging_steps=16, save_strategy="no", report_to=[],
                               learning_rate=3e-4, lr_scheduler_type="cosine", warmup_steps=2),
        train_dataset=fables(),
    ).train()
