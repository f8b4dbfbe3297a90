"""What torchtitan's debug models read, which its package does not have: a tokenizer and a little text, under tests/assets of a folder.

    titan_assets.py FOLDER
"""
import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = "<|begin_of_text|>", "<|end_of_text|>"


def tokenizer():
    """One token for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    return made


def main():
    assets = os.path.join(sys.argv[1], "tests", "assets")
    os.makedirs(os.path.join(assets, "tokenizer"))
    os.makedirs(os.path.join(assets, "c4_test"))
    tokenizer().save(os.path.join(assets, "tokenizer", "tokenizer.json"))
    with open(os.path.join(assets, "tokenizer", "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": SPECIAL[0], "eos_token": SPECIAL[1]}, f)
    with open(os.path.join(assets, "c4_test", "data.json"), "w") as f:
        for i in range(64):
            f.write(json.dumps({"text": "The peak went here. " * 200 + str(i)}) + "\n")


main()
