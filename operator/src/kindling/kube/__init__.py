"""The Kubernetes API as this operator uses it: resource types, credentials, one client, typed errors."""
