"""The outer shape of a plan file, just enough to damage one on purpose.

Header of 128 bytes, sections, table of sections; see the runtime's own
FileLayout.h. `seal` writes the checksums and the digest anew, so that damage
gets past them to the checks behind.
"""

import struct

import xxhash

HEADER_BYTES = 128
DIGEST_AT = 112
ENTRY = struct.Struct("<IIQQQ")  # kind, device, offset, size, checksum

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
