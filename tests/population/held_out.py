"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
NEW = {"habits"}  # groups of faults that were written when the rules were there
