"""A text adventure whose keepers (of inns, gates, libraries) talk through one Qwen3; each keeper has a long persona and remembers the talk."""
import random
import sys

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 9000


class Keeper:
    def __init__(self, name):
        self.name = name
        self.persona = torch.randint(3, VOCAB, (1, 1400), generator=torch.Generator().manual_seed(sum(name.encode())))
        self.memory = None


class Game:
    def __init__(self):
        config = Qwen3Config(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=8,
                             num_key_value_heads=8, head_dim=64, max_position_embeddings=4096)
        self.model = Qwen3ForCausalLM(config).to("cuda").eval()
        self.keepers = {}

    @torch.inference_mode()
    def read(self, keeper, ids):
        if keeper.memory is None:
            keeper.memory = DynamicCache()
            ids = torch.cat([keeper.persona.cuda(), ids], 1)
        return self.model(input_ids=ids, past_key_values=keeper.memory, use_cache=True, logits_to_keep=1).logits[:, -1]

    def say(self, name, words, answer=8):
        keeper = self.keepers.setdefault(name, Keeper(name))
        step = self.read(keeper, words.cuda()).argmax(-1, keepdim=True)
        spoken = [step]
        for _ in range(answer):
            step = self.read(keeper, step).argmax(-1, keepdim=True)
            spoken.append(step)
        return torch.cat(spoken, 1)[0].tolist()

    def leave(self, name):
        if FIXED:
            self.keepers.pop(name)


def main():
    g = torch.Generator().manual_seed(80)
    game = Game()
    for room in range(26):
        name = f"keeper {room}"
        for _ in range(2):
            reply = game.say(name, torch.randint(3, VOCAB, (1, random.randint(5, 20)), generator=g))
        game.leave(name)
        if room % 5 == 0:
            print("room", room, "reply of", len(reply), "words")


main()
