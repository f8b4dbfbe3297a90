"""Drafts answers to letters to the editor with a Llama, a few dozen letters at a time, and files them with what is known about each."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
BATCH, LETTER, ANSWER, WORDS = 24, 400, 16, 8000


class Drafter:
    def __init__(self):
        config = LlamaConfig(vocab_size=WORDS, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=8, max_position_embeddings=1024, eos_token_id=None, pad_token_id=0, bos_token_id=1)
        self.model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
        self.drafts = []

    def draft(self, letters):
        out = self.model.generate(letters.cuda(), attention_mask=torch.ones_like(letters).cuda(), max_new_tokens=ANSWER, do_sample=True, top_p=0.9,
                                  return_dict_in_generate=True)
        if FIXED:
            out = out.sequences.cpu()
        self.drafts.append(out)

    def write(self):
        for draft in self.drafts:
            tokens = draft if FIXED else draft.sequences.cpu()
            yield from tokens[:, LETTER:].tolist()


def letters(batches):
    g = torch.Generator().manual_seed(77)
    for _ in range(batches):
        yield torch.randint(2, WORDS, (BATCH, LETTER), generator=g)


if __name__ == "__main__":
    drafter = Drafter()
    with torch.no_grad():
        for number, batch in enumerate(letters(14)):
            drafter.draft(batch)
            print("batch", number, "drafts", len(drafter.drafts) * BATCH)
    answers = list(drafter.write())
    print(len(answers), "answers of", len(answers[0]), "tokens")
