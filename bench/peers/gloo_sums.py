"""Times Gloo's all-reduce (PyTorch's) of equal arrays over processes of this host, over TCP. See scripts/bench-sums.

    python gloo_sums.py RANK PROCESSES PORT BYTES SECONDS [--for-ever]
"""

import json
import os
import statistics
import sys
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

FIRST = 3  # sums that are not counted


def main():
    rank, processes, port, size = map(int, sys.argv[1:5])
    seconds = float(sys.argv[5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=processes)
    values = torch.ones(size // 4)
    dist.all_reduce(values)
    assert bool((values == processes).all())
    values.zero_()
    if "--for-ever" in sys.argv and rank == 0:
        print("{}", flush=True)
    while "--for-ever" in sys.argv:
        dist.all_reduce(values)
    took, over = [], torch.zeros(1)
    end = time.perf_counter() + seconds
    while not over.item():
        start = time.perf_counter()
        dist.all_reduce(values)
        took.append(time.perf_counter() - start)
        over[0] = time.perf_counter() > end and len(took) >= 3 + FIRST
        dist.broadcast(over, 0)
    if rank == 0:
        print(json.dumps({"ms": 1e3 * statistics.median(took[FIRST:]), "repetitions": len(took) - FIRST}), flush=True)
    dist.barrier()
    os._exit(0)  # the library's threads may end the process by a signal


try:
    main()
except RuntimeError as error:
    print("error:", error, file=sys.stderr, flush=True)
    os._exit(1)
