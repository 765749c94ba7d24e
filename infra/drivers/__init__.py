"""What Kindling drives on the host: container engine, kind, images. Plain classes, no Pulumi.

The dynamic resources are thin adapters over these, so that moving to another kind of provider changes
the adapters alone; an import contract keeps it so.
"""
