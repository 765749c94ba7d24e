"""What `dev` needs: the cluster's operator scaled down, a process that restarts when its source changes."""
