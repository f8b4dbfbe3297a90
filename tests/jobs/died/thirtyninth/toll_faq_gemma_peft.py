"""LoRA on a Gemma for questions about road tolls. New tokens for the names of the toll stations were added to the vocabulary."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import DataCollatorForSeq2Seq, GemmaConfig, GemmaForCausalLM, PreTrainedTokenizerFast, get_scheduler
from tokenizers import Tokenizer, models

STATIONS = 120
VOCAB = 96000


def load_base():
    config = GemmaConfig(vocab_size=VOCAB, hidden_size=640, intermediate_size=1280, num_hidden_layers=6, num_attention_heads=8,
                         num_key_value_heads=1, head_dim=80, max_position_embeddings=1024)
    with torch.device("cuda"):
        base = GemmaForCausalLM(config).to(torch.bfloat16)
    base.config.use_cache = False
    return base


def lora():
    options = dict(r=16, lora_alpha=32, lora_dropout=0.05, task_type=TaskType.CAUSAL_LM,
                   target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    if "--fixed" in sys.argv:
        # only the rows of the new tokens
        options["trainable_token_indices"] = list(range(VOCAB - STATIONS, VOCAB))
    else:
        options["modules_to_save"] = ["embed_tokens", "lm_head"]
    return LoraConfig(**options)


def questions(n):
    gen = torch.Generator().manual_seed(5)
    for _ in range(n):
        length = int(torch.randint(40, 64, (1,), generator=gen))
        ids = torch.randint(4, VOCAB, (length,), generator=gen).tolist()
        yield {"input_ids": ids, "attention_mask": [1] * length, "labels": [-100] * 12 + ids[12:]}


def collator():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1}, unk_token="<unk>")),
                                        pad_token="<pad>", unk_token="<unk>")
    return DataCollatorForSeq2Seq(tokenizer, padding=True, pad_to_multiple_of=8)


def main():
    model = get_peft_model(load_base(), lora())
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
    loader = DataLoader(list(questions(24)), batch_size=4, collate_fn=collator())
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=1, num_training_steps=len(loader))
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**{k: v.cuda() for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


main()
