"""A language model as a judge: reads a question, two answers and the rules, and says by the next token which answer is better."""
import sys

import torch
from torch.utils.data import DataLoader
from transformers import Olmo2Config, Olmo2ForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 50000
FIRST, SECOND = 311, 312  # the tokens of "A" and "B"


def prompts(n):
    """Question, answers and rules, padded on the left."""
    generator = torch.Generator().manual_seed(7)
    for k in range(n):
        length = 700 + (k * 37) % 300
        ids = torch.zeros(1024, dtype=torch.long)
        ids[-length:] = torch.randint(1, VOCABULARY, (length,), generator=generator)
        yield ids


class Judge:
    def __init__(self):
        config = Olmo2Config(vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1536, num_hidden_layers=10, num_attention_heads=8,
                             num_key_value_heads=4, max_position_embeddings=2048, tie_word_embeddings=True, pad_token_id=0)
        torch.set_default_dtype(torch.bfloat16)
        self.model = Olmo2ForCausalLM(config).to("cuda").eval()
        torch.set_default_dtype(torch.float32)

    @torch.inference_mode()
    def preference(self, ids):
        options = {"logits_to_keep": 1} if FIXED else {}
        ids = ids.to("cuda")
        out = self.model(input_ids=ids, attention_mask=(ids > 0).long(), use_cache=False, **options)
        both = out.logits[:, -1, [FIRST, SECOND]].float()
        return both.softmax(-1)[:, 0].cpu()


def main():
    judge = Judge()
    scores = []
    for batch in DataLoader(list(prompts(32)), batch_size=8):
        scores.append(judge.preference(batch))
        print("judged", sum(map(len, scores)))
    scores = torch.cat(scores)
    print("the first answer won in", int((scores > 0.5).sum()), "of", len(scores))


main()
