"""Against a real API server: a package, so that its servers end after the last of its tests."""
