"""Times PyTorch's products of matrices, and its convolutions (32 filters of 8x8 over 128x128x3, then the
sum), as bench_products does.

    python torch_products.py [--threads 2] [--seconds 1] matmul 2000 10000
    python torch_products.py conv 20 200

Prints one JSON object per line, for each layout that may be faster.
"""

import argparse

import torch

from timing import print_environment, print_times, time_steps


def functions(workload, size):
    """Yields (setting, function to time)."""
    if workload == "matmul":
        a, b, c = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        yield "as it comes", lambda: torch.mm(a, b, out=c)
        return
    convolution = torch.nn.Conv2d(3, 32, 8, bias=False)
    images = torch.randn(size, 3, 128, 128)
    yield "NCHW", lambda: convolution(images).sum()
    last = torch.channels_last
    convolution_last, images_last = convolution.to(memory_format=last), images.to(memory_format=last)
    yield "channels_last", lambda: convolution_last(images_last).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=("matmul", "conv"))
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum time of each measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print_environment("pytorch", torch.__version__, arguments.threads)
    with torch.inference_mode():
        for size in arguments.sizes:
            for setting, function in functions(arguments.workload, size):
                few = size >= 5000  # a product of 10,000² takes ten seconds on two cores
                times = time_steps(function, *(1, 3, 0) if few else (3, 10, arguments.seconds))
                print_times("pytorch", f"{arguments.workload} {size}", setting, times)


if __name__ == "__main__":
    main()
