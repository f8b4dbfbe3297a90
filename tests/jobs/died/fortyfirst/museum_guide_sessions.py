"""Answers visitors of a museum: a small Qwen3 behind a queue, one conversation at a time, two questions each."""
import sys

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, GUIDE, QUESTION, ANSWER = 12000, 1400, 40, 12


def language_model():
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=VOCAB, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
                         head_dim=64, max_position_embeddings=4096)
    return Qwen3ForCausalLM(config).to(torch.bfloat16).cuda().eval()


class Conversation:
    """What one visitor has said and heard, with the keys and values of it."""

    def __init__(self, visitor, config):
        self.visitor = visitor
        self.cache = DynamicCache(config=config)
        self.heard = []
        self.open = True


class Guide:
    """Keeps the conversations by visitor; each starts with the sheet of the room."""

    def __init__(self, model):
        self.model = model
        self.conversations = {}
        generator = torch.Generator().manual_seed(1753)
        self.sheet = torch.randint(3, VOCAB, (1, GUIDE), generator=generator)

    @torch.inference_mode()
    def read(self, conversation, ids):
        out = self.model(input_ids=ids.cuda(), past_key_values=conversation.cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def ask(self, visitor, question):
        if visitor not in self.conversations:
            self.conversations[visitor] = Conversation(visitor, self.model.config)
            question = torch.cat([self.sheet, question], 1)
        conversation = self.conversations[visitor]
        word, answer = self.read(conversation, question), []
        for _ in range(ANSWER):
            answer.append(word)
            word = self.read(conversation, word)
        conversation.heard.append(torch.cat(answer, 1).cpu())
        return conversation.heard[-1]

    def goodbye(self, visitor):
        conversation = self.conversations[visitor]
        conversation.open = False
        if FIXED:
            conversation.cache = None

    def report(self):
        closed = [c for c in self.conversations.values() if not c.open]
        return f"{len(closed)} conversations, {sum(h.numel() for c in closed for h in c.heard)} words"


def main():
    guide = Guide(language_model())
    generator = torch.Generator().manual_seed(9)
    for visitor in range(16):
        for _ in range(2):
            guide.ask(visitor, torch.randint(3, VOCAB, (1, QUESTION), generator=generator))
        guide.goodbye(visitor)
        print("visitor", visitor, "left;", guide.report())


if __name__ == "__main__":
    main()
