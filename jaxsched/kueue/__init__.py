"""Kueue's queues for ``jaxsched.queues``: ``client`` -> kubectl, ``queue`` -> its JSON as jobs."""
