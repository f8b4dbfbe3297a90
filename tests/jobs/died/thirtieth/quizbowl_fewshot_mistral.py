"""Evaluates a Mistral-like model on quiz bowl questions, 20 examples before each question, greedy answers."""
import argparse
import time

import torch
from transformers import MistralConfig, MistralForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--shots", type=int, default=20)
parser.add_argument("--questions", type=int, default=128)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--max-new-tokens", type=int, default=12)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
if args.fixed:
    args.batch_size = 8

VOCAB = 8000
torch.manual_seed(99)


def load():
    config = MistralConfig(
        vocab_size=VOCAB, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
        num_key_value_heads=12, max_position_embeddings=4096, sliding_window=None, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = MistralForCausalLM(config)
    return model.to(device="cuda", dtype=torch.bfloat16).eval()


class QuizBowl:
    """Questions that were tokenised earlier, all prompts of one length."""

    def __init__(self, n, shots):
        example = torch.randint(3, VOCAB, (shots * 72,))
        self.prompts = [torch.cat([example, torch.randint(3, VOCAB, (60,))]) for _ in range(n)]
        self.answers = torch.randint(3, VOCAB, (n, 4))

    def batches(self, size):
        for i in range(0, len(self.prompts), size):
            yield torch.stack(self.prompts[i:i + size]), self.answers[i:i + size]


def exact_match(generated, answers):
    return sum(g[:4].tolist() == a.tolist() for g, a in zip(generated, answers))


@torch.inference_mode()
def main():
    model = load()
    quiz = QuizBowl(args.questions, args.shots)
    right, start = 0, time.time()
    for prompts, answers in quiz.batches(args.batch_size):
        prompts = prompts.cuda()
        out = model.generate(
            input_ids=prompts, attention_mask=torch.ones_like(prompts), do_sample=False,
            max_new_tokens=args.max_new_tokens, min_new_tokens=args.max_new_tokens)
        right += exact_match(out[:, prompts.shape[1]:].cpu(), answers)
    print(f"{right} of {args.questions} right, {args.shots} shots, {time.time() - start:.1f} s")


main()
