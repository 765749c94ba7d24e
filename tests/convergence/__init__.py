"""Of the operator's process, disturbed: a package, so that its servers end after the last of its tests."""
