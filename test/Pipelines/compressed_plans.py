#!/usr/bin/env python3
"""compressed_plans.py PLAN FOLDER: hostile plans of it, whose first program is
a frame that comes to much.

Writes FOLDER/NAME.dtplan for each name below, behind right checksums.
"""

import sys
from pathlib import Path

from plan_file import PlanBytes
from zstd_frame import repeated

MIB = 1 << 20

FRAMES = {
    # 4 KB that come to 125 MiB, and say so.
    "frame-of-125-mib": repeated(b"x", 125 * MIB),
    # Some bytes that say 64 TiB.
    "frame-says-64-tib": repeated(b"x", 1000, 1 << 46),
    # 4 KB that say as much as they may, and come to 125 MiB.
    "frame-says-little": repeated(b"x", 125 * MIB, 60000),
    # As large as a small file's may be: 8 MiB in 512 KiB.
    "frame-of-a-sixteenth": repeated(b"x", 8 * MIB).ljust(MIB // 2, b"\0"),
    # The window that it names, not the size, is what it asks for: 2 GiB.
    "frame-with-a-window": b"\x28\xb5\x2f\xfd\xc0\xa8"
    + (1024).to_bytes(8, "little")
    + (1024 << 3 | 2 | 1).to_bytes(3, "little")
    + b"x".ljust(64, b"\0"),
}


def main():
    good, folder = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
    for name, frame in FRAMES.items():
        plan = PlanBytes(good)
        plan.replace(0, frame)
        (folder / f"{name}.dtplan").write_bytes(plan.data)


if __name__ == "__main__":
    sys.exit(main())
