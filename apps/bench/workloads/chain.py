"""Is the cost per op the same in a long chain as in a short one?"""

from apps.bench.workload import Workload
from apps.bench.workloads import multiply_add

SHORT, LONG = 1_000, 100_000

CHAIN = Workload("chain", f"8×8 float32, a chain of {LONG:,} ops beside one of {SHORT:,}", unit="op", rtol=1e-3)

for length in (LONG, SHORT):
    variant = f"{length:,} ops"
    CHAIN.contender("needle", variant)(lambda n=length // 2: multiply_add.needle(n, create_graph=False))
    CHAIN.contender("needle", f"create_graph=True, {variant}")(lambda n=length // 2: multiply_add.needle(n, True))
    CHAIN.contender("torch", variant)(lambda n=length // 2: multiply_add.torch(n))

for who in ("needle", "needle create_graph=True,", "torch"):
    long, short = f"{who} {LONG:,} ops", f"{who} {SHORT:,} ops"
    aims = {short: 2.0} if who.startswith("needle") else {}
    CHAIN.compare(f"chain, {who.rstrip(',')}: long against short", long, against=[short], aims=aims)

WORKLOADS = [CHAIN]
