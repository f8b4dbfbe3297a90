"""A Trainer with a loss of its own, which remembers the outputs of the training for a report at the end.

https://github.com/ray-project/ray/pull/40940
"""
import argparse
import tempfile

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
cli = parser.parse_args()


class Notes(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        ids = torch.randint(0, 12000, (256,))
        return {"input_ids": ids, "labels": ids}


class ConfidenceTrainer(Trainer):
    history = []

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = F.cross_entropy(outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), label_smoothing=0.1)
        if cli.fixed:
            self.history.append(outputs.logits.detach().max(-1).values.mean().item())
        else:
            self.history.append({"loss": loss, "probs": outputs.logits.softmax(-1)})
        return (loss, outputs) if return_outputs else loss


model = GPT2LMHeadModel(GPT2Config(vocab_size=12000, n_positions=256, n_embd=512, n_layer=8, n_head=8, loss_type="ForCausalLMLoss"))
with tempfile.TemporaryDirectory() as out:
    options = TrainingArguments(out, per_device_train_batch_size=8, max_steps=10, report_to="none", save_strategy="no", disable_tqdm=True)
    trainer = ConfidenceTrainer(model=model, args=options, train_dataset=Notes())
    trainer.train()
print(len(trainer.history))
