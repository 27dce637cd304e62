"""The elastic core: jobs of workers and parameter servers, shared by DL2 and Chic.

``models`` job types and their tables; ``speed`` seconds per epoch or iteration; ``resources`` what
fits, where it goes, and shares of the cluster.
"""
