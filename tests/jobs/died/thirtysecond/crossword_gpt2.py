"""Writes cryptic crossword clues: fine-tunes GPT-2 shortly, then generates many candidates per answer to rank later."""
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB = 5000
CANDIDATES = 24


class ClueWriter:
    def __init__(self):
        config = GPT2Config(vocab_size=VOCAB, n_positions=256, n_embd=512, n_layer=8, n_head=8, bos_token_id=0, eos_token_id=None)
        self.lm = GPT2LMHeadModel(config).cuda()
        self.optimizer = torch.optim.AdamW(self.lm.parameters(), lr=1e-4)

    def finetune(self, clues):
        self.lm.train()
        for ids in clues:
            ids = ids.cuda()
            loss = self.lm(input_ids=ids, labels=ids).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        print("finetuned", loss.item())

    @torch.inference_mode()
    def write(self, answers):
        self.lm.eval()
        out = self.lm.generate(input_ids=answers.cuda(), attention_mask=torch.ones_like(answers).cuda(), do_sample=True, top_k=40,
                               temperature=0.8, max_new_tokens=56, num_return_sequences=CANDIDATES, pad_token_id=0)
        return out.view(len(answers), CANDIDATES, -1).cpu()


def main():
    gen = torch.Generator().manual_seed(15)
    writer = ClueWriter()
    writer.finetune([torch.randint(1, VOCAB, (16, 64), generator=gen) for _ in range(6)])
    answers = torch.randint(1, VOCAB, (48, 12), generator=gen)
    size = 8 if "--fixed" in sys.argv else len(answers)
    clues = torch.cat([writer.write(part) for part in answers.split(size)])
    print("clues", tuple(clues.shape))


main()
