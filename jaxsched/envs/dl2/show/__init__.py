"""DL2 shown: logs of episodes, golden cases, described clusters, the paper's claims."""
