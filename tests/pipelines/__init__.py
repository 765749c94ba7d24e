"""Of the workflows: a package, so that what they run on ends after the last of its tests."""
