"""What is told of DL2: episodes, golden cases, clusters, the paper's claims."""
