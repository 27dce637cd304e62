"""A policy that orders the queue of a real Slurm, by its jobs' priorities.

``client`` -> Slurm's commands; ``queue`` -> their JSON as jobs; ``past`` -> the jobs that have
ended, which forecasts need; ``orders`` -> the order that a policy wants; ``priorities`` -> the
fewest changes that give it; ``control`` -> passes that do no harm, and what they found put back;
``decisions`` -> what passes in the shadow wanted, read later.
"""
