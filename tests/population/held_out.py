"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"common_j", "common_j_more", "common_k", "common_k_more",
       "fields_f", "fields_g", "fields_h", "fields_i", "habits_f", "habits_f_more", "habits_g", "habits_h", "habits_i"}
NEW_FAMILIES = {"a student with a trainer", "a word for a style", "actions of people", "activations rescaled", "actors and a learner",
                "adapters with TRL", "an actor and two critics", "an agent with a memory", "an encoder of latents", "anomalies with Lightning",
                "answers by adapters", "answers with Lightning", "answers with tools", "baskets", "boxes of a grid", "boxes with Lightning",
                "brains in three dimensions", "candidates of a shop", "cells under a microscope", "chats", "choices", "clips from noise",
                "clips that are searched", "clusters of views", "code search with Accelerate", "code with holes", "code with one key",
                "commands with Lightning", "comments that are looked at", "completions", "compressed keys", "crystals", "decisions in a row",
                "dialogues in one row", "events of music", "faces", "few steps of diffusion", "forms with boxes", "frames that are hidden",
                "further training", "gated memory", "graphs with attention", "guided words", "heartbeats", "instruction tuning",
                "interests of people", "joints of people", "land with Lightning", "large kernels", "layers distilled", "letters with a trainer",
                "likes and dislikes", "links of a graph", "loads with Lightning", "long documents", "many environments", "margins of a teacher",
                "masked words with a trainer", "masks by prompts", "masks by queries", "memory beside attention", "molecules from noise",
                "music of codes", "names on request", "names with a trainer", "near and far words", "nested vectors", "observer and performer",
                "operators by points", "organs by windows", "pairs by a sigmoid", "parallel blocks", "paraphrases that agree",
                "passages by a language model", "people and things as a graph", "photographs mixed", "pictures among words",
                "pictures and words with a trainer", "pictures by sketches", "pictures of chests", "pictures of one thing",
                "pictures scale by scale", "pictures with a trainer", "pictures without pairs", "pictures without rain", "places recognised",
                "preferences by adapters", "products of small matrices", "proteins", "quantiles of demand", "questions for a database",
                "ranks that adapt", "receipts", "replaced tokens", "rewards of steps", "rewards with TRL", "roads", "scaled logits",
                "scans laid over", "several answers each", "several goals of a feed", "several tokens ahead", "shared layers",
                "signs in a video", "slices of a mesh", "slides", "small layers between", "solver in the loop", "songs that follow",
                "sounds with Accelerate", "spans of answers", "sparse vectors", "speech into a language model", "speech without noise",
                "streets with Accelerate", "summaries", "summaries with a trainer", "surfaces", "tags by adapters", "texts by unmasking",
                "the best of many", "things and their outlines", "things around a car", "things of an encyclopedia", "thinking in a loop",
                "tiles on request", "translations on request", "trees of sentences", "variables as words", "vectors of pictures",
                "videos made sharper", "vocoder", "voices with Accelerate", "walking robots", "what happens in a clip", "words and sounds",
                "words that are wrong", "words that skip layers", "world model"}
