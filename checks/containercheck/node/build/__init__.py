"""What runs in the build step: it gets software, images and inputs into caches."""
