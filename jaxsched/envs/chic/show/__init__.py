"""What is told of Chic: episodes, golden cases, clusters, the paper's claims."""
