"""What is told of MLFS: episodes, golden cases, the paper's claims."""
