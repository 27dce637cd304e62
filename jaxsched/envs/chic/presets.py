"""Named recipes of Chic and Chic-Pair."""

from dataclasses import replace

from jaxsched.envs.chic.recipe import Recipe

PAPER = Recipe()
PAPER_PAIR = replace(PAPER, env=replace(PAPER.env, pair=True))

PRESETS = {"quick": PAPER, "paper": PAPER, "pair": PAPER_PAIR}
