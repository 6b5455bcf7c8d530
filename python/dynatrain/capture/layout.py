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


def ranks_text(ranks):
    """ "rank 3", "ranks 0-3 and 6", as errors name ranks."""
    runs = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [f"{lo}-{hi}" if lo < hi else str(lo) for lo, hi in runs]
    several = len(runs) > 1 or any(lo < hi for lo, hi in runs)
    text = ", ".join(texts[:-1]) + " and " * (len(texts) > 1) + texts[-1]
    return f"ranks {text}" if several else f"rank {text}"


class Layout:
    """Who holds what on one side, by the keys of its state dicts."""

    def __init__(self, world):
        self.world = world
        self.tensors = {}  # key -> (shape, dtype)
        self.rows = []
        self.seen = set()  # rows
        #: Ranks of which what was read does not say what they hold, each with
        #: the reason; `merge` fills them in.
        self.unknown = {}

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
                f"tensor {name!r} is on rank {rank}, but the world has "
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

    def forget(self, names):
        """Leaves tensors out that are declared and held."""
        names = set(names)
        for name in names:
            self.tensors.pop(name, None)
        self.rows = [row for row in self.rows if row["tensor"] not in names]
        self.seen = {key for key in self.seen if key[0] not in names}

    def check_whole(self, side):
        """Fails while the layout does not tell what some ranks hold."""
        if not self.unknown:
            return
        why = self.unknown[min(self.unknown)]
        raise CaptureError(
            f"the {side} is not known on {ranks_text(self.unknown)}: {why}; "
            "read the state dicts of those ranks too and join the layouts "
            "(capture.merge)"
        )


def merge(layouts):
    """One layout out of those that several ranks read, each from its own state
    dict. A rank that no layout tells of stays unknown, which `request`
    refuses."""
    layouts = list(layouts)
    if not layouts:
        raise CaptureError("there is no layout to merge, expected at least one")
    out = Layout(layouts[0].world)
    out.unknown = dict(layouts[0].unknown)
    for layout in layouts:
        if layout.world != out.world:
            raise CaptureError(
                f"layouts of worlds of {out.world} and {layout.world} ranks "
                "cannot be merged, expected one world"
            )
        for name, (shape, dtype) in layout.tensors.items():
            out.declare(name, shape, dtype)
        for row in layout.rows:
            out.hold(
                row["tensor"], row["rank"], row["offset"], row["size"],
                row.get("range"),
            )  # fmt: skip
        for rank in out.unknown.keys() - layout.unknown.keys():
            del out.unknown[rank]
    return out
