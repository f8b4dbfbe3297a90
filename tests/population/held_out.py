"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"common_j", "common_j_more"}
NEW_FAMILIES = {"actions of people", "adapters with TRL", "an agent with a memory", "answers by adapters",
                "boxes of a grid", "commands with Lightning", "compressed keys", "faces", "further training",
                "memory beside attention", "organs by windows", "passages by a language model", "pictures by sketches",
                "pictures of one thing", "pictures with a trainer", "pictures without rain", "proteins", "receipts",
                "several answers each", "small layers between", "speech into a language model",
                "streets with Accelerate", "things and their outlines", "tiles on request", "variables as words"}
