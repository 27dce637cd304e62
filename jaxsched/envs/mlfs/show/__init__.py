"""MLFS shown: logs of episodes, golden cases, the paper's claims."""
