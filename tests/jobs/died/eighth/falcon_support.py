"""Fine-tunes a small Falcon on support dialogues with the Trainer and reports token accuracy from compute_metrics."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import FalconConfig, FalconForCausalLM, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv


class Dialogues(Dataset):
    def __init__(self, rows, length=256, vocabulary=24000, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocabulary, (rows, length), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, n):
        labels = self.ids[n].clone()
        labels[:64] = -100  # the customer's words are not trained
        return {"input_ids": self.ids[n], "labels": labels}


def token_accuracy(prediction):
    guesses = prediction.predictions if FIXED else prediction.predictions.argmax(-1)
    truth = prediction.label_ids
    seen = truth[:, 1:] != -100
    return {"accuracy": float((guesses[:, :-1] == truth[:, 1:])[seen].mean())}


def build():
    config = FalconConfig(vocab_size=24000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, multi_query=True,
                          parallel_attn=True, bias=False, max_position_embeddings=512)
    return FalconForCausalLM(config)


def main():
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=10,
        eval_strategy="steps", eval_steps=5, save_strategy="no", report_to=[], logging_steps=5, disable_tqdm=True, bf16=True,
        dataloader_pin_memory=False)
    reduce = {"preprocess_logits_for_metrics": lambda logits, labels: logits.argmax(-1)} if FIXED else {}
    trainer = Trainer(model=build(), args=arguments, train_dataset=Dialogues(40), eval_dataset=Dialogues(48, seed=1),
                      compute_metrics=token_accuracy, **reduce)
    trainer.train()
    print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
