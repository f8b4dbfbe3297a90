"""Fine-tunes a Llama on jingles of radio advertisements, then writes eight drafts for each of 64 briefs."""
import sys

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 5000


class JingleWriter:
    def __init__(self):
        config = LlamaConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=8, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        self.model = LlamaForCausalLM(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def fit(self, batches):
        self.model.train()
        for number, ids in enumerate(batches):
            ids = ids.to("cuda")
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            print("batch", number, "loss", loss.item())

    def write(self, briefs, drafts=8, length=48):
        self.model.eval()
        options = GenerationConfig(do_sample=True, top_p=0.95, temperature=0.8, num_return_sequences=drafts, max_new_tokens=length,
                                   min_new_tokens=length, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        at_a_time = 8 if FIXED else len(briefs)
        written = []
        for part in briefs.split(at_a_time):
            part = part.to("cuda")
            out = self.model.generate(part, attention_mask=torch.ones_like(part), generation_config=options)
            written.extend(out[:, part.shape[1]:].cpu().view(len(part), drafts, -1))
        return written


def main():
    g = torch.Generator().manual_seed(101)
    writer = JingleWriter()
    writer.fit(torch.randint(3, VOCAB, (4, 4, 128), generator=g))
    drafts = writer.write(torch.randint(3, VOCAB, (64, 120), generator=g))
    print(len(drafts), "briefs,", len(drafts[0]), "drafts each")


if __name__ == "__main__":
    main()
