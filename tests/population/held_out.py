"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"habits_i", "fields_i"}
NEW_FAMILIES = {"events of music", "frames that are hidden", "words and sounds", "pictures among words",
                "pictures scale by scale", "clusters of views", "masks by queries", "clips that are searched",
                "things around a car", "surfaces", "clips from noise", "scans laid over", "molecules from noise", "crystals",
                "an actor and two critics", "many environments", "slices of a mesh", "loads with Lightning"}
