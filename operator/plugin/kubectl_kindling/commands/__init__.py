"""One module for each command, or for those that have much in common."""
