"""Writes the default configuration of each type of transformers, whole and with few layers: models_configure.py FOLDER [TYPE,...]

FOLDER/TYPE.whole.json is the default configuration, FOLDER/TYPE.json has the fewest of 2, 4, 6, ... layers with which transformers accepts it, FOLDER/TYPE.job.json
the declared fields of its training step. Prints the types, those without a default configuration with "error" and why.
"""
import copy
import json
import os
import sys

import transformers

from models_step import COMPLETED, JOB, ROWS

LAYERS = ("num_hidden_layers", "layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_encoder_layers",
          "num_decoder_layers", "depth", "encoder_depth", "decoder_depth", "vision_layers", "num_hidden_groups")
KINDS = ("layer_types", "mlp_layer_types", "layers_block_type")  # a list of them, whose length may be the number of layers
POSITIONS = ("max_position_embeddings", "n_positions", "context_length", "max_seq_len")


def parts(tree):
    """A configuration as JSON, and those inside it."""
    yield tree
    for value in tree.values():
        if isinstance(value, dict) and "model_type" in value:
            yield from parts(value)


def reduced(tree, most):
    """The same configuration with at most that many layers; a list or table of as many entries as there were layers is cut as well."""
    tree = copy.deepcopy(tree)
    for part in parts(tree):
        if part.get("stage_names"):  # a backbone's outputs are named by its layers
            continue
        counts = {part[name] for name in LAYERS if type(part.get(name)) is int and part[name] > most}
        for name, value in part.items():
            if name in LAYERS and type(value) is int and value in counts:
                part[name] = most
            elif isinstance(value, list) and (len(value) in counts or (name in KINDS and not any(part.get(each) for each in LAYERS))):
                part[name] = value[:most]
            elif name == "per_layer_config" and isinstance(value, dict):
                part[name] = {key: entry for key, entry in value.items() if int(key) < most}
    return tree


def accepted(kind, tree):
    try:
        return transformers.CONFIG_MAPPING[kind].from_dict(copy.deepcopy(tree))
    except Exception:
        return None


def smallest(kind, tree):
    for most in (2, 4, 6, 8, 12, 16, 24):
        few = reduced(tree, most)
        if accepted(kind, few) is not None:
            return few
    return tree


def completed(tree, kind):
    """The default configuration with what it lacks for a model, as its publisher's own file has it."""
    for key, value in COMPLETED.get(kind, {}).items():
        part = tree
        *path, last = key.split(".")
        for name in path:
            part = part[name]
        part[last] = value
    return tree


def tokens(tree):
    """Those of the job, or the positions that the model has."""
    least = [part[name] for part in parts(tree) for name in POSITIONS if type(part.get(name)) is int and part[name] > 1]
    return min([JOB["seq_length"], *least])


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, default=str)


def main(folder, wanted):
    for kind in transformers.CONFIG_MAPPING:
        if wanted and kind not in wanted:
            continue
        try:
            tree = json.loads(json.dumps({**transformers.CONFIG_MAPPING[kind]().to_dict(), "model_type": kind}, default=str))
        except Exception as e:
            print(kind, "error", type(e).__name__, " ".join(str(e).split())[:150])
            continue
        tree = completed(tree, kind)
        write(folder, kind + ".whole.json", tree)
        write(folder, kind + ".json", smallest(kind, tree))
        write(folder, kind + ".job.json", {**JOB, "seq_length": tokens(tree), "micro_batch_size": ROWS.get(kind, 1)})
        print(kind)


main(sys.argv[1], sys.argv[2].split(",") if len(sys.argv) > 2 and sys.argv[2] else [])
