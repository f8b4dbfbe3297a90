"""A masked language model of rhymed psalters (DeBERTa, the Trainer), with the share of masked words that it finds."""
import sys
import tempfile

import torch
from transformers import DebertaV2Config, DebertaV2ForMaskedLM, Trainer, TrainingArguments, set_seed

FIXED = "--fixed" in sys.argv
WORDS, LENGTH, MASK = 30000, 128, 4


class Verses(torch.utils.data.Dataset):
    """Verses with 15 % of the words masked."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(5, WORDS, (n, LENGTH), generator=g)
        masked = torch.rand(n, LENGTH, generator=g) < 0.15
        self.inputs = self.labels.masked_fill(masked, MASK)
        self.labels = self.labels.masked_fill(~masked, -100)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.inputs[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": self.labels[i]}


def masked_accuracy(evaluated):
    guesses, labels = evaluated.predictions, evaluated.label_ids
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    known = labels != -100
    return {"masked_accuracy": float((guesses[known] == labels[known]).mean())}


def main():
    set_seed(150)
    config = DebertaV2Config(vocab_size=WORDS, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
                             max_position_embeddings=LENGTH, type_vocab_size=0, relative_attention=True, position_biased_input=False,
                             pos_att_type=["p2c", "c2p"], position_buckets=32, norm_rel_ebd="layer_norm", share_att_key=True)
    options = {"preprocess_logits_for_metrics": lambda logits, labels: logits.argmax(-1)} if FIXED else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=16, per_device_eval_batch_size=16, max_steps=4, eval_strategy="steps",
                                      eval_steps=4, learning_rate=1e-4, save_strategy="no", report_to=[])
        trainer = Trainer(DebertaV2ForMaskedLM(config), arguments, train_dataset=Verses(64, 0), eval_dataset=Verses(160, 1),
                          compute_metrics=masked_accuracy, **options)
        trainer.train()
        print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
