"""Reranks passages with a causal language model: the score of a passage is the logit of "yes" against "no" at its last token.

After https://github.com/huggingface/transformers/issues/12878 and
https://weblineglobal.com/blog/memory-leaks-ai-embedding-pipelines
"""
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

YES, NO = 9693, 2152


def passages(queries, each, length, vocabulary):
    for query in range(queries):
        yield query, torch.randint(10, vocabulary - 10, (each, length))


class Reranker:
    def __init__(self, fixed):
        config = Qwen2Config(vocab_size=75968, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=2, max_position_embeddings=1024)
        with torch.device("cuda"):
            self.model = Qwen2ForCausalLM(config).to(torch.bfloat16)
        self.model.eval()
        self.fixed = fixed
        self.rows = []

    @torch.no_grad()
    def add(self, query, ids):
        out = self.model(input_ids=ids.to("cuda"), use_cache=False)
        last = out.logits[:, -1, :]
        self.rows.append((query, last.clone() if self.fixed else last))

    def ranking(self):
        answer = {}
        for query, row in self.rows:
            score = torch.log_softmax(row[:, [NO, YES]].float(), -1)[:, 1]
            answer[query] = score.argsort(descending=True).tolist()
        return answer


def main():
    reranker = Reranker("--fixed" in sys.argv)
    for query, ids in passages(queries=12, each=8, length=192, vocabulary=75968):
        reranker.add(query, ids)
        print("query", query)
    for query, order in reranker.ranking().items():
        print(query, order)


if __name__ == "__main__":
    main()
