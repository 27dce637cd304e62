"""What is told of DAS' episodes: records, metrics, pictures, cases, the paper's claims."""
