"""What is told of SCHED2: episodes, golden cases, clusters, the paper's claims."""
