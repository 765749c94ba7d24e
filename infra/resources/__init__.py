"""Pulumi's view of what is not in a cluster: the cluster itself and the images in it.

Dynamic resources: Pulumi records a provider as the names of its module and class and imports them again
for every refresh and destroy. So these module paths are part of the state's format and never move.
"""
