"""Run the programs of the build step, which provide software, images and inputs in caches."""
