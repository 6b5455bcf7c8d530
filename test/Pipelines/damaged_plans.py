"""Checks that damaged and hostile plan files are refused, each with one error.

A good plan is damaged in every way listed in `DAMAGE`, without and with its
checksums made right again; and one whose programs are compressed in every way
of `FRAME_DAMAGE`. `dt-plan inspect`, `dt-plan verify` and `dt-run`
must each end with exit code 1 and one line on stderr that starts with
"error:". A last set changes random bytes of both behind right checksums:
whatever a tool makes of it, it must end by itself with exit code 0 or 1.
"""

import argparse
import random
import struct
import sys
import tempfile
from pathlib import Path

from generate import config_case
from plan_file import HEADER_BYTES, PlanBytes
from plan_tools import Tools, print_closing_line, refusal_problems
from random_transitions import write_case
from zstd_frame import frame, is_frame, repeated

COMMANDS = [("dt-plan", "inspect"), ("dt-plan", "verify"), ("dt-run",)]
HUGE = 2**64 - 8
FUZZED_PLANS = 80
# What only those find who read the programs, which inspect has no need to.
INSIDE_A_PROGRAM = {
    "a program of zeros, sealed",
    "a program of ones, sealed",
    "a root far away, sealed",
    "a frame of zeros",
    "a frame that says 64 TiB",
    "a frame of more than its size allows",
    "a frame that says too much",
    "a frame that says too little",
    "a frame that says nothing",
    "a frame that decoders skip",
    "half a frame",
    "a byte behind a frame",
    "two frames",
}


def kept(count):
    """Only the first bytes; a negative count drops so many at the end."""
    return lambda plan: plan.data.__delitem__(slice(count, None))


def flip(offset):
    """One bit of the byte at `offset`; negative ones count from the end."""

    def damage(plan):
        plan.data[offset] ^= 0x10

    return damage


def field(name, value, sealed=False):
    def damage(plan):
        plan.set_field(name, value)
        if sealed:
            plan.seal_digest()

    return damage


def entry(number, column, value, sealed=False):
    """A field of a section's row in the table."""

    def damage(plan):
        table = plan.table()
        table[number][column] = value
        plan.set_table(table)
        if sealed:
            plan.seal_digest()

    return damage


def section(number, change, sealed=False):
    """`change(bytes) -> bytes` of the same length, applied to a section."""

    def damage(plan):
        where = plan.section(number)
        changed = change(bytes(plan.data[where]))
        assert len(changed) == where.stop - where.start
        plan.data[where] = changed
        if sealed:
            plan.seal()

    return damage


def flip_middle(payload):
    middle = len(payload) // 2
    return (
        payload[:middle] + bytes([payload[middle] ^ 1]) + payload[middle + 1 :]
    )


def zeros(payload):
    return bytes(len(payload))


def ones(payload):
    return b"\xff" * len(payload)


def root_far_away(payload):
    return struct.pack("<I", 0x7FFFFFF0) + payload[4:]


def swap_sections(plan):
    """The first two programs trade places, the table stays."""
    first, second = plan.section(0), plan.section(1)
    bytes_of = plan.data[first], plan.data[second]
    plan.data[first.start : second.stop] = bytes_of[1] + bytes_of[0]


def swap_rows(plan):
    table = plan.table()
    plan.set_table([table[1], table[0], *table[2:]])


def swap_devices(plan):
    """Each of two programs claims to be the other's."""
    table = plan.table()
    table[0][1], table[1][1] = table[1][1], table[0][1]
    plan.set_table(table)
    plan.seal_digest()


def replace(data):
    def damage(plan):
        plan.data[:] = data

    return damage


DAMAGE = {
    "an empty file": kept(0),
    "one byte": kept(1),
    "the magic alone": kept(8),
    "half a header": kept(HEADER_BYTES // 2),
    "a header alone": kept(HEADER_BYTES),
    "cut in the first section": kept(HEADER_BYTES + 9),
    "the table's last row is missing": kept(-32),
    "the last byte is missing": kept(-1),
    "one byte too many": lambda plan: plan.data.append(0),
    "the file twice": lambda plan: plan.data.extend(bytes(plan.data)),
    "a text file": replace(b"this is not a plan\n" * 40),
    "zeros only": replace(bytes(4096)),
    "wrong magic": flip(0),
    "wrong byte order": field("endian", 0x04030201),
    "a newer major version": field("major", 99, sealed=True),
    "a newer minor version": field("minor", 99, sealed=True),
    "an older major version": field("major", 0, sealed=True),
    "header size 0": field("header_size", 0, sealed=True),
    "a huge header size": field("header_size", 0xFFFFFFFF, sealed=True),
    "no sections": field("section_count", 0),
    "four billion sections": field("section_count", 0xFFFFFFFF),
    "the table at 0": field("table_offset", 0),
    "the table past the end": field("table_offset", HUGE),
    "a file size that lies": field("file_size", HUGE),
    "another compiler's name": flip(40),
    "another feature": field("features", 1 << 63),
    "another feature, sealed": field("features", 1 << 63, sealed=True),
    "a wrong digest": flip(112),
    "a bit flipped in the first program": section(0, flip_middle),
    "a bit flipped in the common section": section(-1, flip_middle),
    "a bit flipped in the table": flip(-20),
    "a wrong checksum": entry(0, 4, 0, sealed=True),
    "a section at 0": entry(0, 2, 0, sealed=True),
    "a section past the end": entry(0, 2, HUGE, sealed=True),
    "a huge section": entry(0, 3, HUGE, sealed=True),
    "an empty section": entry(0, 3, 0, sealed=True),
    "a section of unknown kind": entry(0, 0, 77, sealed=True),
    "a program of an unknown device": entry(0, 1, 0xFFFFFFFF, sealed=True),
    "two programs trade places": swap_sections,
    "two rows of the table trade places": swap_rows,
    "two programs trade devices": swap_devices,
    "a program of zeros": section(0, zeros),
    "a program of zeros, sealed": section(0, zeros, sealed=True),
    "a program of ones, sealed": section(0, ones, sealed=True),
    "a common section of zeros, sealed": section(-1, zeros, sealed=True),
    "a root far away, sealed": section(0, root_far_away, sealed=True),
    "a common root far away, sealed": section(-1, root_far_away, sealed=True),
}


def as_frame(made):
    """The first program becomes another frame, or what is made of its own."""

    def damage(plan):
        own = plan.stored(0)
        plan.replace(0, made(own) if callable(made) else made)

    return damage


def without_feature(plan):
    """The header no longer states what the common section names last."""
    features = plan.field("features")
    plan.set_field("features", features & ~(1 << features.bit_length() - 1))
    plan.seal_digest()


FRAME_DAMAGE = {
    "a bit flipped in a frame": section(0, flip_middle),
    "a frame of zeros": as_frame(repeated(b"\0", 4096) + bytes(256)),
    "a frame that says 64 TiB": as_frame(repeated(b"x", 4096, 1 << 46)),
    "a frame of more than its size allows": as_frame(repeated(b"x", 1 << 26)),
    "a frame that says too much": as_frame(repeated(b"x", 63, 64)),
    "a frame that says too little": as_frame(repeated(b"x", 65, 64)),
    "a frame that says nothing": as_frame(frame([(0, 8, b"12345678")])),
    "a frame that decoders skip": as_frame(b"\x50\x2a\x4d\x18" + bytes(60)),
    "half a frame": as_frame(lambda own: own[: len(own) // 2]),
    "a byte behind a frame": as_frame(lambda own: own + b"1234567\1"),
    "two frames": as_frame(lambda own: own + own),
    "no feature for frames": without_feature,
}


def fuzz(rng):
    """Changes 1 to 4 bytes of one section, behind right checksums."""

    def damage(plan):
        where = plan.section(rng.randrange(len(plan.table())))
        for _ in range(rng.randint(1, 4)):
            value = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            plan.data[rng.randrange(where.start, where.stop)] = value
        plan.seal()

    return damage


def ended_badly(done):
    """What is wrong with a tool's end on a file that may be right by chance."""
    if done.returncode not in (0, 1):
        return [f"exit code {done.returncode}: {done.stderr[-500:]!r}"]
    return []


def check_damage(tools, good, damage, path, judge, commands):
    plan = PlanBytes(good)
    damage(plan)
    if plan.data == good:
        return [] if judge is ended_badly else ["the damage changes nothing"]
    path.write_bytes(plan.data)
    problems = []
    for tool, *words in commands:
        for problem in judge(tools.start(tool, *words, path)):
            problems.append(f"{' '.join([tool, *words])}: {problem}")
    return problems


def good_plans(tools, folder):
    """Bytes of a sound plan with at least two programs: as its compiler stores
    them, which is compressed, and as they are."""
    case = config_case(random.Random(3))
    path = folder / "good.dtplan"
    tools.compile(write_case(case, folder), path)
    compressed = PlanBytes(path.read_bytes())
    if not is_frame(compressed.stored(0)):
        raise SystemExit("error: a plan to damage is not compressed")
    plain = PlanBytes(compressed.data)
    plain.open_programs()
    for plan in (compressed, plain):
        path.write_bytes(plan.data)
        for command in COMMANDS:
            tools.output(command[0], *command[1:], path)
    return bytes(compressed.data), bytes(plain.data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fuzz", type=int, default=FUZZED_PLANS)
    options = parser.parse_args()
    tools, rng = Tools(options.bin), random.Random(options.seed)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compressed, plain = good_plans(tools, folder)
        cases = [(plain, *case, refusal_problems) for case in DAMAGE.items()]
        cases += [
            (compressed, *case, refusal_problems)
            for case in FRAME_DAMAGE.items()
        ]
        for number in range(options.fuzz):
            name = f"random bytes {number} of seed {options.seed}"
            good = compressed if number % 4 == 3 else plain
            cases.append((good, name, fuzz(rng), ended_badly))
        for good, name, damage, judge in cases:
            path = folder / "damaged.dtplan"
            first = 1 if name in INSIDE_A_PROGRAM else 0
            problems = check_damage(
                tools, good, damage, path, judge, COMMANDS[first:]
            )
            failed += bool(problems)
            for problem in problems:
                print(f"{name}: {problem}")
    return print_closing_line(len(cases) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
