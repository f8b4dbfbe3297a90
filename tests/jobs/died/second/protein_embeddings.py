"""Embeds a proteome with an ESM-like encoder: one mean-pooled vector a protein, kept in host memory, saved at the end.

After https://github.com/mravanelli/pytorch-kaldi/pull/41 and
https://theneuralbase.com/embeddings/errors/embedding-cuda-out-of-memory-batch-error/
"""
import sys

import torch
from transformers import EsmConfig, EsmModel

ALPHABET = "LAGVSERTIDPKQNFYMHWC"


def fasta(count, length):
    """Stands for Bio.SeqIO over the proteome."""
    for i in range(count):
        yield "P%05d" % i, "".join(ALPHABET[(i * 7 + j) % 20] for j in range(length - i % 5))


def encode(sequences):
    longest = max(map(len, sequences))
    ids = torch.ones(len(sequences), longest + 2, dtype=torch.long)
    for row, sequence in zip(ids, sequences):
        row[0], row[len(sequence) + 1] = 0, 2
        row[1:len(sequence) + 1] = torch.tensor([4 + ALPHABET.index(c) for c in sequence])
    return ids, (ids != 1).long()


def batched(records, size):
    batch = []
    for record in records:
        batch.append(record)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def embed(model, records, batch_size=16):
    names, vectors = [], []
    for batch in batched(records, batch_size):
        ids, mask = encode([s for _, s in batch])
        out = model(input_ids=ids.cuda(), attention_mask=mask.cuda()).last_hidden_state
        weights = mask.cuda().unsqueeze(-1)
        vectors.append(((out * weights).sum(1) / weights.sum(1)).cpu())
        names += [n for n, _ in batch]
        print(len(names), "proteins")
    return names, torch.cat(vectors)


if __name__ == "__main__":
    config = EsmConfig(vocab_size=33, pad_token_id=1, mask_token_id=32, hidden_size=480, num_hidden_layers=12, num_attention_heads=20,
                       intermediate_size=1920, position_embedding_type="rotary", max_position_embeddings=1026)
    esm = EsmModel(config, add_pooling_layer=False).cuda().eval()
    with torch.set_grad_enabled("--fixed" not in sys.argv):
        ids, vectors = embed(esm, fasta(128, 300))
    torch.save({"names": ids, "vectors": vectors.detach()}, "proteome.pt")
