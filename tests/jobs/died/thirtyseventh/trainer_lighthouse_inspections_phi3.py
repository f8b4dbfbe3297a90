"""Continue training a small Phi-3 on reports of lighthouse inspections; token accuracy over the validation reports after training."""
import sys
import tempfile

import numpy as np
import torch
from transformers import Phi3Config, Phi3ForCausalLM, Trainer, TrainingArguments, set_seed

VOCAB, LENGTH = 12000, 256


class Reports(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.ids = torch.randint(3, VOCAB, (n, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def keep_best_token(logits, labels):
    return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)


def token_accuracy(prediction):
    guess, labels = prediction.predictions, prediction.label_ids
    if guess.ndim == 3:
        guess = np.stack([row.argmax(-1) for row in guess])
    return {"token_accuracy": float((guess[:, :-1] == labels[:, 1:]).mean())}


def main():
    set_seed(1811)
    config = Phi3Config(vocab_size=VOCAB, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=6,
                        num_key_value_heads=6, max_position_embeddings=512, original_max_position_embeddings=512, pad_token_id=0,
                        bos_token_id=1, eos_token_id=2, use_cache=False)
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=8,
            max_steps=10,
            eval_strategy="steps",
            eval_steps=5,
            save_strategy="no",
            logging_steps=5,
            learning_rate=2e-4,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=Phi3ForCausalLM(config),
            args=arguments,
            train_dataset=Reports(60, 1),
            eval_dataset=Reports(104, 2),
            compute_metrics=token_accuracy,
            preprocess_logits_for_metrics=keep_best_token if "--fixed" in sys.argv else None,
        )
        trainer.train()
        print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
