"""Effects beyond the Kubernetes API, each behind one call that tests can replace."""
