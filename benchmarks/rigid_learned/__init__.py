"""Learned schedulers of rigid jobs: made on the beginning of traces, judged on the rest."""
