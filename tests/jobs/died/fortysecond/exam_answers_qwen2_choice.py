"""A Qwen2 answers multiple-choice questions of a pilots' exam: the most probable letter after the question, with five worked examples before it."""
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

fixed = "--fixed" in sys.argv
LETTERS = [32, 33, 34, 35]  # the words A, B, C, D
VOCABULARY = 151936


class Exam:
    """Questions as rows of words; the worked examples come first in each."""

    def __init__(self, questions=48, length=700):
        generator = torch.Generator().manual_seed(747)
        self.prompts = torch.randint(100, VOCABULARY, (questions, length), generator=generator)
        self.keys = torch.randint(0, 4, (questions,), generator=generator)

    def batches(self, size):
        return zip(self.prompts.split(size), self.keys.split(size))


def load():
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=896, intermediate_size=4864, num_hidden_layers=10, num_attention_heads=14,
                         num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config)
    return model.to(torch.bfloat16).eval()


@torch.no_grad()
def choose(model, prompts):
    options = {"logits_to_keep": 1} if fixed else {}
    logits = model(input_ids=prompts.cuda(), use_cache=False, **options).logits
    return logits[:, -1, LETTERS].float().softmax(-1)


def main():
    model, exam = load(), Exam()
    right, certainty = 0, 0.0
    for n, (prompts, keys) in enumerate(exam.batches(8)):
        chances = choose(model, prompts).cpu()
        right += (chances.argmax(-1) == keys).sum().item()
        certainty += chances.max(-1).values.sum().item()
        print("batch", n, "right so far", right)
    print("share", right / len(exam.keys), "certainty", certainty / len(exam.keys))


if __name__ == "__main__":
    main()
