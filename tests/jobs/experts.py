"""16,384 tokens choose 8 of 128 experts: how many tokens each expert gets, counted in the ways in which mixtures of experts count them. The one-hot mask has
128 MiB. Prints for each way [the number of experts, the least, the most, all]."""
import json

import torch

TOKENS, EXPERTS, CHOSEN = 16384, 128, 8
chosen = torch.topk(torch.empty(TOKENS, EXPERTS, device="cuda"), CHOSEN, dim=-1).indices  # not drawn: the choice is balanced
flat = chosen.flatten()
mask = torch.nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
routed = torch.zeros(TOKENS, EXPERTS, device="cuda", dtype=torch.bool).scatter(1, chosen, True)
by_expert = routed.T.contiguous()
tokens = torch.arange(TOKENS, device="cuda").unsqueeze(0).expand(EXPERTS, -1).masked_select(by_expert)
ordered = flat.sort(stable=True)[0]
WAYS = {
    "where": [len(torch.where(mask[expert[0]])[1]) for expert in hit],
    "sum of the mask": mask.sum(dim=(-1, -2)).tolist(),
    "bincount": torch.bincount(flat, minlength=EXPERTS).tolist(),
    "histc": torch.histc(flat.int(), bins=EXPERTS, min=0, max=EXPERTS - 1).tolist(),
    "routing map": routed.sum(0).tolist(),
    "transposed map": torch.bincount(by_expert.nonzero()[:, 0], minlength=EXPERTS).tolist(),
    "masked_select": [len(part) for part in tokens.split(len(tokens) // EXPERTS)],
    "sorted": torch.unique_consecutive(ordered, return_counts=True)[1].tolist(),
    "unique": torch.unique(flat.clone(), return_counts=True)[1].tolist(),
    "on the host": torch.bincount(flat.cpu(), minlength=EXPERTS).tolist(),
    "joined": torch.bincount(torch.cat([flat[:70000], flat[70000:]]), minlength=EXPERTS).tolist(),
    "offsets": torch.bincount(flat, minlength=EXPERTS).cumsum(0, dtype=torch.int32).diff(prepend=torch.zeros(1, device="cuda", dtype=torch.int32)).tolist(),
    "equal": [(flat == expert).sum().item() for expert in range(EXPERTS)],
}
for way, rows in WAYS.items():
    print(json.dumps({"way": way, "rows": [len(rows), int(min(rows)), int(max(rows)), int(sum(rows))]}), flush=True)
