# %% Scan of single mutants of a snake toxin
# An ESM encoder gives a vector per mutant, a ridge regression on the CPU turns it into a toxicity.
import sys
import torch
from transformers import EsmConfig, EsmModel

fixed = "--fixed" in sys.argv
AMINO = "ACDEFGHIKLMNPQRSTVWY"
torch.manual_seed(0)

# %% the wild type, 120 residues
gen = torch.Generator().manual_seed(1988)
wild = torch.randint(0, 20, (120,), generator=gen)
print("wild type", "".join(AMINO[i] for i in wild.tolist())[:30], "...")

# %% model
config = EsmConfig(vocab_size=33, hidden_size=640, num_hidden_layers=20, num_attention_heads=20, intermediate_size=2560, max_position_embeddings=256,
                   position_embedding_type="rotary", token_dropout=False, pad_token_id=1, mask_token_id=32)
esm = EsmModel(config, add_pooling_layer=False).cuda()
esm.eval()


# %% mutants
def mutants(site):
    rows = wild.repeat(20, 1)
    rows[:, site] = torch.arange(20)
    start, end = torch.full((20, 1), 0), torch.full((20, 1), 2)
    return torch.cat([start, rows + 4, end], 1)


def embed(ids):
    ids = ids.cuda()
    states = esm(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return states[:, 1:-1].mean(1).detach().cpu()


# %% scan, four sites in a batch
vectors = []
for site in range(0, 60, 4):
    ids = torch.cat([mutants(s) for s in range(site, site + 4)])
    if fixed:
        with torch.inference_mode():
            vectors.append(embed(ids))
    else:
        vectors.append(embed(ids))
vectors = torch.cat(vectors).view(60, 20, -1)
print("vectors", tuple(vectors.shape))

# %% ridge on the few mutants that were measured
measured = torch.randint(0, 60 * 20, (90,), generator=gen)
X, y = vectors.flatten(0, 1)[measured], torch.rand(90, generator=gen)
X = torch.nan_to_num(X, nan=0.0, posinf=1.0, neginf=-1.0).clamp(-3, 3)
gram = X @ X.T + 10.0 * torch.eye(90)
weights = torch.linalg.solve(gram, y)
print("weights", tuple(weights.shape))
