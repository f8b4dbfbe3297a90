"""Tree of thoughts: an agent writes several next thoughts for the best nodes of a search tree and has them judged."""
import copy
import random
import sys

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, PROBLEM, THOUGHT = 4000, 640, 6


class Node:
    def __init__(self, parent, tokens, cache, last, score):
        self.parent, self.tokens, self.cache, self.last, self.score = parent, tokens, cache, last, score
        self.children = []

    def path(self):
        return (self.parent.path() if self.parent else []) + [self.tokens]


class Thinker:
    def __init__(self, beam=4, branches=3, depth=7):
        self.beam, self.branches, self.depth = beam, branches, depth
        self.judge = random.Random(9)      # the judge is another service
        config = LlamaConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1280, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=8, max_position_embeddings=1024)
        self.model = LlamaForCausalLM(config).cuda().eval()

    def read(self, problem):
        out = self.model(input_ids=problem.cuda(), past_key_values=DynamicCache(), use_cache=True, logits_to_keep=1)
        return Node(None, [], out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True), 0.0)

    def think(self, node):
        cache, token, words = copy.deepcopy(node.cache), node.last, []
        for _ in range(THOUGHT):
            out = self.model(input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            words.append(token)
        child = Node(node, torch.cat(words, 1).cpu(), cache, token, self.judge.random())
        node.children.append(child)
        return child

    def solve(self, problem):
        frontier = [self.read(problem)]
        root = frontier[0]
        for level in range(self.depth):
            thoughts = [self.think(node) for node in frontier for _ in range(self.branches)]
            thoughts.sort(key=lambda n: n.score, reverse=True)
            if FIXED:
                for node in frontier + thoughts[self.beam:]:
                    node.cache = None
            frontier = thoughts[:self.beam]
            print("level", level, "thoughts", len(thoughts), "best", round(frontier[0].score, 3))
        return root, frontier[0].path()


with torch.inference_mode():
    g = torch.Generator().manual_seed(3)
    tree, solution = Thinker().solve(torch.randint(0, VOCAB, (1, PROBLEM), generator=g))
    print("a solution of", len(solution) - 1, "thoughts")
