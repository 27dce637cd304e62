"""Slurm's queue for ``jaxsched.queues``: ``client`` -> its commands, ``queue`` -> their JSON."""
