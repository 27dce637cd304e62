"""Records of rigid jobs' episodes, and golden cases."""
