"""Prints the exchange of all rows among N ranks by the printed XOR loop.

In wave u - 1 rank r meets rank r xor u, for u = 1 .. N - 1. Every rank holds a
row and wants them all.
"""

import sys

ranks = int(sys.argv[1])
print(f"""dt.space @model {{
  dt.param @w [{ranks}, 4] of <param = bf16>
}}
dt.layout @rows of @model world {ranks} {{
  dt.place @w shards [i: {ranks}] rank i at [i, 0] size [1, 4]
}}
dt.layout @all of @model world {ranks} {{
  dt.place @w shards [i: {ranks}] rank i at [0, 0] size [{ranks}, 4]
}}
dt.transition @gather from @rows to @all {{
  dt.copy @w <[i: {ranks}] on i at [i, 0] size [1, 4]>""")
for u in range(1, ranks):
    pairs = [(r, r ^ u) for r in range(ranks) if r ^ u < ranks]
    slots = [f"({a}, {b}, {end}, -1, 8)" for a, b in pairs for end in (0, 1)]
    pieces = [f"from {a} to {b} at [{a}, 0] size [1, 4]" for a, b in pairs]
    print(f"  dt.wave {u - 1} slots <5 columns, {', '.join(slots)}> {{")
    print(f"    dt.sendrecv @w <{', '.join(pieces)}>")
    print("  }")
print("}")
