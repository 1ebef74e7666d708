"""A memory cgroup: what the kernel allows and counts of a process, as a container has it."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path


class MemoryGroup:
    """A cgroup with a limit; its processes are ended by the kernel where they take more."""

    def __init__(self, parent: Path, limit: int) -> None:
        self.parent = parent
        self.is_unified = (parent / "cgroup.controllers").exists()
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-", dir=parent))
        (self.folder / ("memory.max" if self.is_unified else "memory.limit_in_bytes")).write_text(str(limit))

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Has this process in the group for a while, so that what it starts is there from its first byte on."""
        before = self._own_group()
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))

    def _own_group(self) -> Path:
        controllers = "" if self.is_unified else "memory"
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, of, path = line.split(":", 2)
            if of == controllers:
                return self.parent / path.lstrip("/")
        return self.parent

    def peak(self) -> int | None:
        """Returns the most bytes so far, with files that the kernel keeps; `None` where it does not tell."""
        name = "memory.peak" if self.is_unified else "memory.max_usage_in_bytes"
        try:
            return int((self.folder / name).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def kills(self) -> int:
        """Returns how many processes were ended for want of memory."""
        name = "memory.events" if self.is_unified else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", (self.folder / name).read_text(encoding="ascii"), re.MULTILINE)
        if found is None:
            raise RuntimeError(f"{name} does not tell how many processes were ended")
        return int(found[1])

    def remove(self) -> None:
        """Removes the group, once its processes have ended."""
        self.folder.rmdir()


def make_memory_group(limit: int) -> MemoryGroup | None:
    """Makes a group with this limit in bytes; `None` where this machine, or this user, has none."""
    for parent in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        controllers = parent / "cgroup.subtree_control"
        has_memory = parent.name == "memory" or (controllers.exists() and "memory" in controllers.read_text().split())
        if has_memory and (parent / "cgroup.procs").exists():
            with contextlib.suppress(OSError):
                return MemoryGroup(parent, limit)
    return None
