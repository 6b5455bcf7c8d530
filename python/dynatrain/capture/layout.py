"""Who holds what on one side, as readers find it."""


class CaptureError(Exception):
    """What was given describes no layout."""


def field(thing, name, default=None):
    """A field of an object or of its JSON form."""
    if isinstance(thing, dict):
        return thing.get(name, default)
    return getattr(thing, name, default)


def dtype_name(dtype):
    """ "torch.bfloat16" or "BF16" as a request may spell it."""
    return str(dtype).removeprefix("torch.")


def region_text(offset, size):
    """[0:4)x[2:6), as the tools print regions."""
    pairs = zip(offset, size, strict=True)
    return "x".join(f"[{lo}:{lo + n})" for lo, n in pairs) or "[]"


class Layout:
    """Who holds what on one side, by the keys of its state dicts."""

    def __init__(self, world):
        self.world = world
        self.tensors = {}  # key -> (shape, dtype)
        self.rows = []
        self.seen = set()  # rows

    def declare(self, name, shape, dtype, where=""):
        """`where` ("on rank 1") says in errors who holds it so."""
        entry = ([int(n) for n in shape], dtype_name(dtype))
        known = self.tensors.setdefault(name, entry)
        if known != entry:
            raise CaptureError(
                f"tensor {name!r} is {entry[0]} {entry[1]} "
                f"{where or 'on one rank'}, and {known[0]} {known[1]} on "
                "another"
            )

    def hold(self, name, rank, offset, size, flat=None):
        """Adds a box of a declared tensor; `flat` is a range of its elements,
        row-major. A box without elements is no row."""
        if not 0 <= rank < self.world:
            raise CaptureError(
                f"tensor {name!r} lies on rank {rank}, but the world has "
                f"{self.world}"
            )
        if 0 in size or (flat and flat[0] == flat[1]):
            return
        row = {
            "tensor": name,
            "rank": rank,
            "offset": [int(n) for n in offset],
            "size": [int(n) for n in size],
        }
        if flat:
            row["range"] = [int(n) for n in flat]
        key = (name, rank, *row["offset"], *row["size"], *row.get("range", ()))
        if key not in self.seen:
            self.seen.add(key)
            self.rows.append(row)
