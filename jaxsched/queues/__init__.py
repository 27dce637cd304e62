"""The queue of a real scheduler in the order of a policy, by its jobs' priorities.

``jobs`` -> what a scheduler's adapter reads and sets; ``commands`` -> its commands, each with a
limit of time; ``past`` -> the jobs that have ended, which forecasts need; ``orders`` -> the order
that a policy wants; ``priorities`` -> the fewest changes that give it; ``control`` -> passes that
do no harm, and what they found put back; ``decisions`` -> what passes in the shadow wanted, read
later; ``slurm`` and ``kueue`` -> the adapters, of which the others know nothing.
"""
