"""The outer shape of a plan file, just enough to damage one on purpose.

Header of 128 bytes, sections, table of sections; see the runtime's own
FileLayout.h. `seal` writes the checksums and the digest anew, so that damage
gets past them to the checks behind; `replace` gives a section other bytes.
Programs may be stored as frames (zstd_frame.py).
"""

import struct

import xxhash
from zstd_frame import decompressed, is_frame

HEADER_BYTES = 128
DIGEST_AT = 112
ENTRY = struct.Struct("<IIQQQ")  # kind, device, offset, size, checksum
COMMON = 0  # the kind of the section that is of no device

# Where the header's fields are: (offset, struct code).
FIELDS = {
    "endian": (8, "<I"),
    "major": (12, "<H"),
    "minor": (14, "<H"),
    "header_size": (16, "<I"),
    "section_count": (20, "<I"),
    "table_offset": (24, "<Q"),
    "file_size": (32, "<Q"),
    "features": (104, "<Q"),
}


class PlanBytes:
    """A plan file as bytes that can be changed."""

    def __init__(self, data):
        self.data = bytearray(data)

    def field(self, name):
        offset, code = FIELDS[name]
        return struct.unpack_from(code, self.data, offset)[0]

    def set_field(self, name, value):
        offset, code = FIELDS[name]
        struct.pack_into(code, self.data, offset, value)

    def table(self):
        """[[kind, device, offset, size, checksum]] of the sections."""
        at = self.field("table_offset")
        count = self.field("section_count")
        return [
            list(ENTRY.unpack_from(self.data, at + n * ENTRY.size))
            for n in range(count)
        ]

    def set_table(self, table):
        at = self.field("table_offset")
        for number, entry in enumerate(table):
            ENTRY.pack_into(self.data, at + number * ENTRY.size, *entry)

    def section(self, number):
        """The slice of the file that a section takes."""
        _, _, offset, size, _ = self.table()[number]
        return slice(offset, offset + size)

    def stored(self, number):
        return bytes(self.data[self.section(number)])

    def replace(self, number, stored):
        """Another content of a section; those behind it move."""
        stored += bytes(-len(stored) % 8)
        where, table = self.section(number), self.table()
        grown = len(stored) - (where.stop - where.start)
        self.data[where] = stored
        self.set_field("table_offset", self.field("table_offset") + grown)
        self.set_field("file_size", self.field("file_size") + grown)
        table[number][3] += grown
        for entry in table[number + 1 :]:
            entry[2] += grown
        self.set_table(table)
        self.seal()

    def open_programs(self):
        """Stores all programs but one as they are: the plan states frames."""
        frames = [
            number
            for number in range(len(self.table()))
            if is_frame(self.stored(number))
        ]
        for number in frames[:-1]:
            self.replace(number, decompressed(self.stored(number)))

    def seal_sections(self):
        table = self.table()
        for entry in table:
            payload = bytes(self.data[entry[2] : entry[2] + entry[3]])
            entry[4] = xxhash.xxh3_64_intdigest(payload)
        self.set_table(table)

    def seal_digest(self):
        table = self.data[self.field("table_offset") :]
        digest = xxhash.xxh3_128_intdigest(bytes(self.data[:DIGEST_AT] + table))
        low, high = digest & (2**64 - 1), digest >> 64
        struct.pack_into("<QQ", self.data, DIGEST_AT, low, high)

    def seal(self):
        self.seal_sections()
        self.seal_digest()
