"""What a release consists of, as files: pure, but for `rendering`, which asks the program for its objects.

One source, `infra.components`: manifests, kustomize bases and the Helm chart are made of what they declare.
"""
