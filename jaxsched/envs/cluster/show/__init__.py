"""What is told of rigid jobs: episodes and golden cases."""
