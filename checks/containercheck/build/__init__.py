"""What runs in the build step: it gets things into caches (standard library only, Python 3.6 or newer)."""
