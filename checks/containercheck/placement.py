"""Where the image lies when it runs, as an axis (D12.6 section 9: in memory, or on a shared file system)."""

from reframe.core.builtins import parameter, run_after
from reframe.core.pipeline import RegressionTestPlugin


class ImagePlacement(RegressionTestPlugin):
    """Adds the axis to a check: ``class MyCode(ContainerCheck, ImagePlacement)``."""

    #: Where the image lies: in the cache, which all nodes share, or in the node's memory.
    image_in = parameter(["shared", "ram"], loggable=True)

    @run_after("init")
    def choose_place(self):
        """In a plain run the image stays where it is."""
        if self.image_in == "ram":
            self.full_only = True
            self.image_directory = "/dev/shm"

    @run_after("init", always_last=True)
    def leave_out_bare(self):
        """A bare run has no image to be placed."""
        if self.image_in == "ram" and not self.contained:
            self.valid_systems = []
