"""Run IOzone, which reads and writes files in all access patterns of CHPCE.

CHPCE, section "Disk performance", figures 18 and 19 (random write, strided read): files to 15 GB, records to 16 MB, on
x86 and OpenPOWER. A container loses next to nothing, a virtual machine much.

The page cache would hide the disk. A file of the default size is read at the speed of memory, and a disk or driver at
half its speed goes unnoticed. So files are opened with O_DIRECT (-I) if possible. The C library's streams and mmap need
the cache: there the time includes flush and close (-e -c). So the time covers writes to the disk, and reads from it if
the file is larger than the memory.

The file is in the stage directory, or in the other ``file_systems`` of the site's extras, which a container has bound
in. An answer checks that both sides wrote to the same file system, and not to the container's overlay.
"""

import shlex
import shutil
from pathlib import Path

import reframe as rfm
from containercheck import Answer, FilePlacement, Identity, Metric, SingleNodeCheck, Step, Work, skip_unless
from reframe.core.builtins import parameter, run_after, run_before

#: Ways of access, with their options and the titles of their reports.
MODES = {
    "random_strided": (
        "-I -i 0 -i 2 -i 5",
        ["Writer", "Re-writer", "Random read", "Random write", "Stride read"],
    ),
    "sequential": ("-I -i 0 -i 1 -i 3 -i 4", ["Reader", "Re-Reader", "Backward read", "Record rewrite"]),
    "positioned": ("-I -E -i 0 -i 9 -i 10", ["Pwrite", "Re-Pwrite", "Pread", "Re-Pread"]),
    "streams": ("-e -c -i 6 -i 7", ["Fwrite", "Re-Fwrite", "Fread", "Re-Fread"]),
    "asynchronous": ("-I -H 8 -i 0 -i 1", ["Writer", "Re-writer", "Reader", "Re-Reader"]),
    "mmap": ("-B -G -e -c -i 0 -i 1", ["Writer", "Re-writer", "Reader", "Re-Reader"]),
}
#: Sizes of the file in megabytes, and of a record in kilobytes. A default run takes the first of each.
FILE_SIZES = (512, 4096, 15360)
RECORD_SIZES = (1024, 4, 16384)


#: Reports that repeat another report's numbers. Theirs are read from the table (size, record, write, ...), after this
#: number of columns.
IN_TABLE = {"Pwrite": 4, "Re-Pwrite": 5, "Pread": 6, "Re-Pread": 7}


def report(title):
    """Return the metric for one report, in kB/s as IOzone prints it."""
    pattern = rf'^"{title} report"\n\s+"\d+"\s*\n"\d+"\s+(\d+)'
    if title in IN_TABLE:
        pattern = rf"^\s+(?:\d+\s+){{{IN_TABLE[title]}}}(\d+)"
    return Metric(title.lower().replace(" ", "_"), pattern, "kB/s", spread=20.0, measures=("files",))


@rfm.simple_test
class IOzone(SingleNodeCheck, FilePlacement):
    """IOzone 3.489."""

    descr = "IOzone"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    #: Way of access.
    access = parameter(list(MODES), loggable=True)
    #: Size of the file, in MB.
    file_size = parameter(FILE_SIZES, loggable=True)
    #: Size of a record, in kB.
    record_size = parameter(RECORD_SIZES, loggable=True)
    plain = {"access": "random_strided", "file_size": FILE_SIZES[0], "record_size": RECORD_SIZES[0]}

    executable = "iozone"
    debian = ["iozone3"]
    recipe = "iozone"
    run_limit = 3600
    seconds = 70
    tolerance = 10.0

    identity = [Identity("version", r"^\s+Version \$Revision: (\S+) \$")]
    # The reports of the default way of access.
    metrics = [report(title) for title in MODES["random_strided"][1]]
    answers = [
        Answer("complete", r"^iozone (test complete)\.", equals="test complete"),
        Answer("device", r"^device (\d+)$"),
    ]

    @run_after("init")
    def choose_reports(self):
        """Set the metrics: each way of access has its own reports."""
        self.metrics = [report(title) for title in MODES[self.access][1]]

    @run_after("setup")
    def require_space(self):
        """Skip if the file does not fit into the free space."""
        place = Path(self.stagedir, self.directory)
        free = shutil.disk_usage(place).free // 2**20 if place.is_dir() else self.file_size
        if free < self.file_size:
            self.skip_because(f"{free} MB free in {place}")

    @run_before("run")
    def write_steps(self):
        """Verify a small file, then measure the big one; -R prints the reports."""
        file, size = shlex.quote(self.own_file), f"-s {self.file_size}m -r {self.record_size}k"
        self.steps = [
            Step("place", f"stat -c 'device %d' {shlex.quote(self.directory)}"),
            Step("verify", f"{self.program} -V 165 -i 0 -i 1 -i 2 -i 5 -s 16m -r 256k -f {file}"),
            Step("measure", f"{self.program} {MODES[self.access][0]} -R {size} -f {file}"),
        ]
        self.reset_commands = [f"rm -f {file}"]
        if self.access == "mmap":
            # msync takes whole pages only, and IOzone does not check its result.
            reason = f"records of {self.record_size} kB in pages of $(getconf PAGESIZE) bytes: mmap flushes pages"
            self.input_commands += [skip_unless(f"[ $(getconf PAGESIZE) -le {self.record_size << 10} ]", reason)]

    @property
    def work(self) -> Work:
        """The megabytes of all reports; each handles the file at 1 GB/s, or at 100 MB/s with records of a few kB."""
        rate = 1000 if self.record_size > 100 else 100
        return Work("megabytes", self.file_size * len(self.metrics), fixed_seconds=2, serial_seconds_per_unit=1 / rate)
