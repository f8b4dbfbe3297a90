"""Text-to-SQL: fine-tunes Qwen2; tokens of the SQL count more than those of the explanation."""
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

VOCAB, LENGTH = 64000, 512


class QueryPairs(torch.utils.data.Dataset):
    def __init__(self, n=64):
        g = torch.Generator().manual_seed(6)
        self.ids = torch.randint(0, VOCAB, (n, LENGTH), generator=g)
        self.weights = torch.where(torch.arange(LENGTH) > 300, 2.0, 0.5).expand(n, -1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i], "token_weights": self.weights[i]}


def token_nll(hidden, head, labels):
    logp = F.log_softmax(head(hidden), dim=-1)
    return -logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


class WeightedTrainer(Trainer):
    chunk = 128 if "--fixed" in sys.argv else None

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels, weights = inputs.pop("labels"), inputs.pop("token_weights")
        hidden = model.model(input_ids=inputs["input_ids"]).last_hidden_state[:, :-1]
        hidden, labels, weights = hidden.flatten(0, 1), labels[:, 1:].flatten(), weights[:, 1:].flatten()
        if self.chunk:
            parts = zip(hidden.split(self.chunk), labels.split(self.chunk))
            nll = torch.cat([checkpoint(token_nll, h, model.lm_head, l, use_reentrant=False) for h, l in parts])
        else:
            nll = token_nll(hidden, model.lm_head, labels)
        return (nll * weights).sum() / weights.sum()


def main():
    config = Qwen2Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=896, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                         tie_word_embeddings=True, use_cache=False)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, per_device_train_batch_size=4, max_steps=5, learning_rate=2e-5, remove_unused_columns=False,
                                 logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
        WeightedTrainer(model=Qwen2ForCausalLM(config), args=args, train_dataset=QueryPairs()).train()


if __name__ == "__main__":
    main()
