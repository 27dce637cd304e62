"""The rules of rigid jobs: what runs where, what is seen of it, futures drawn anew."""
