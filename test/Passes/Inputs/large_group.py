"""Prints N ranks that exchange M elements with every other, all in one group.

Every element is a message. As programs, or with "wave" as a transition with one
wave, which lists every message on its own.
"""

import sys

ranks, times = int(sys.argv[1]), int(sys.argv[2])
own = ranks * times
pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]


def print_layouts():
    """Rank a holds what it has for each rank b in turn."""
    wanted = f"[i * {times} + j * {own}] size [{times}]"
    print(f"""dt.space @model {{
  dt.param @w [{ranks * own}] of <param = f32>
}}
dt.layout @src of @model world {ranks} {{
  dt.place @w shards [i: {ranks}] rank i at [i * {own}] size [{own}]
}}
dt.layout @dst of @model world {ranks} {{
  dt.place @w shards [i: {ranks}, j: {ranks}] rank i at {wanted}
}}""")


def print_wave():
    slots = [
        f"[i: {times}] ({a}, {b}, {end}, -1, 4)"
        for sender, receiver in pairs
        for a, b, end in ((sender, receiver, 0), (receiver, sender, 1))
    ]
    pieces = [
        f"[i: {times}] from {a} to {b} at [i + {a * own + b * times}] size [1]"
        for a, b in pairs
    ]
    local = f"[i: {ranks}] on i at [i * {own + times}] size [{times}]"
    print(f"""dt.transition @exchange from @src to @dst {{
  dt.copy @w <{local}>
  dt.wave 0 slots <5 columns, {", ".join(slots)}> {{
    dt.sendrecv @w <{", ".join(pieces)}>
  }}
}}""")


def print_programs():
    print("dt.transition @exchange from @src to @dst")
    for rank in range(ranks):
        print(f"dt.program @exchange device {rank} staging 64 {{")
        print("  %s = dt.slot at 0 : !dt.buffer<4>")
        print("  dt.group wave 0 {")
        for peer in [peer for peer in range(ranks) if peer != rank] * times:
            print(f"    dt.send %s to {peer} : !dt.buffer<4>")
            print(f"    dt.recv %s from {peer} : !dt.buffer<4>")
        print("  }\n}")


print_layouts()
print_wave() if sys.argv[3:] == ["wave"] else print_programs()
