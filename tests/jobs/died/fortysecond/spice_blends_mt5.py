"""Names blends of spices from their recipes: an mT5 with its 250112 words, trained with label smoothing of our own."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import MT5Config, MT5ForConditionalGeneration

FIXED = "--fixed" in sys.argv
SMOOTHING = 0.1


def smoothed_loss(logits, labels):
    """Cross entropy with smoothing, as the paper writes it."""
    log_probs = F.log_softmax(logits.float(), dim=-1)
    nll = -log_probs.gather(-1, labels[..., None])[..., 0]
    smooth = -log_probs.mean(-1)
    return ((1 - SMOOTHING) * nll + SMOOTHING * smooth).mean()


def in_pieces(head, states, labels, piece=32):
    """The same over a few words at a time; what a piece needs is computed again for its backward pass."""
    states, labels = states.flatten(0, 1), labels.flatten()
    total = 0
    for x, y in zip(states.split(piece), labels.split(piece)):
        total = total + len(y) * checkpoint(lambda a, b: smoothed_loss(head(a), b), x, y, use_reentrant=False)
    return total / len(labels)


def batch(generator):
    recipes = torch.randint(3, 250000, (16, 96), generator=generator)
    names = torch.randint(3, 250000, (16, 32), generator=generator)
    return recipes.cuda(), names.cuda()


def main():
    torch.manual_seed(0)
    config = MT5Config(d_model=256, d_kv=64, d_ff=512, num_layers=4, num_decoder_layers=4, num_heads=4, decoder_start_token_id=0)
    with torch.device("cuda"):
        model = MT5ForConditionalGeneration(config)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(5)
    for step in range(5):
        recipes, names = batch(generator)
        if FIXED:
            encoded = model.get_encoder()(input_ids=recipes).last_hidden_state
            shifted = torch.cat([names.new_zeros(len(names), 1), names[:, :-1]], 1)
            hidden = model.get_decoder()(input_ids=shifted, encoder_hidden_states=encoded, use_cache=False).last_hidden_state
            loss = in_pieces(model.lm_head, hidden, names)
        else:
            logits = model(input_ids=recipes, labels=names).logits
            loss = smoothed_loss(logits, names)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
