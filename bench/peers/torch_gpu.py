"""Times PyTorch on a GPU: the training steps, products and convolutions that bench_gpu_step and
`telar bench matmul|conv` time.

    python torch_gpu.py [--seconds 2] steps mlp32 resnet34_3x3_b128_bf16 resnet34_224_bf16
    python torch_gpu.py matmul 10000
    python torch_gpu.py conv 200

The tensors are on the GPU beforehand. There are 20 rounds of consecutive steps; each round ends when the GPU
has finished. Steps are made in these settings, one after another; a JSON object is printed for each:

    eager           channels_last, autocast to bf16, fused optimizers, cudnn.benchmark
    graph           the same step, recorded as one CUDA graph and replayed
    compile         torch.compile's `reduce-overhead`: compiled, and played as CUDA graphs
    max-autotune    torch.compile's `max-autotune`, which measures kernels for minutes
"""

import argparse
import contextlib
import time

import torch
from torch import nn

import torch_models
from timing import print_line

LEARNING_RATE = 1e-5
ROUNDS = 20


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9, fused=True)


def adam(parameters, **options):
    return torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True, **options)


def recordable_adam(parameters):
    return adam(parameters, capturable=True)


# name: (model, shape of the input, optimizer, bf16)
WORKLOADS = {
    "mlp32": (torch_models.mlp, (32, 784), adam, False),
    "mlp128": (torch_models.mlp, (128, 784), adam, False),
    "convnet_b128": (torch_models.convnet, (128, 1, 28, 28), adam, False),
    "resnet34_224_bf16": (lambda: torch_models.ResNet34("7x7"), (256, 3, 224, 224), momentum, True),
    "resnet34_3x3_b128_bf16": (lambda: torch_models.ResNet34("3x3"), (128, 3, 32, 32), momentum, True),
}


# Each setting's mode of torch.compile, if it has one.
SETTINGS = {"eager": None, "graph": None, "compile": "reduce-overhead", "max-autotune": "max-autotune"}


def make_step(workload, setting, device):
    build, shape, make_optimizer, bf16 = WORKLOADS[workload]
    if setting == "graph" and make_optimizer is adam:
        make_optimizer = recordable_adam
    torch.manual_seed(1)
    model = build().train().to(device)
    x = torch.randn(shape, device=device)
    y = torch.randint(0, 10, (shape[0],), device=device)
    if len(shape) == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model.parameters())
    loss_of = nn.CrossEntropyLoss()

    def forward(x, y):
        precision = torch.autocast(device.split(":")[0], dtype=torch.bfloat16) if bf16 else contextlib.nullcontext()
        with precision:
            return loss_of(model(x), y)

    if SETTINGS[setting]:
        forward = torch.compile(forward, mode=SETTINGS[setting])

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(x, y).backward()
        optimizer.step()

    return recorded(step) if setting == "graph" else step


def recorded(step):
    """The step as one CUDA graph, recorded after three steps on a stream of its own (PyTorch's notes on CUDA graphs)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def synchronise(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def time_rounds(function, seconds, device):
    """The milliseconds per call of each round, in ascending order, and the number of calls per round."""
    def milliseconds(count):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(count):
            function()
        synchronise(device)
        return 1e3 * (time.perf_counter() - start) / count

    milliseconds(5)
    count = min(10_000, max(1, int(1e3 * seconds / ROUNDS / milliseconds(5))))
    return sorted(milliseconds(count) for _ in range(ROUNDS)), count


def report(workload, setting, function, arguments):
    times, count = time_rounds(function, arguments.seconds, arguments.device)
    print_line({
        "kind": "step", "framework": f"pytorch {torch.__version__}", "workload": workload, "setting": setting,
        "device": arguments.device, "rounds": ROUNDS, "steps_a_round": count,
        "median_ms": (times[ROUNDS // 2 - 1] + times[ROUNDS // 2]) / 2, "min_ms": times[0], "max_ms": times[-1],
    })


def products(size, device):
    for setting, dtype, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)):
        a = torch.randn(size, size, device=device, dtype=dtype)
        b = torch.randn(size, size, device=device, dtype=dtype)
        c = torch.empty_like(a)

        def product():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.mm(a, b, out=c)

        yield setting, product


def convolutions(images, device):
    """Convolutions of 128x128x3 images with 32 filters of 8x8, then the sum."""
    for setting, dtype, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)):
        for layout in (torch.contiguous_format, torch.channels_last):
            convolution = nn.Conv2d(3, 32, 8, bias=False).to(device, dtype, memory_format=layout)
            x = torch.randn(images, 3, 128, 128, device=device, dtype=dtype).to(memory_format=layout)

            def run(convolution=convolution, x=x, tf32=tf32):
                torch.backends.cudnn.allow_tf32 = tf32
                return convolution(x).sum()

            yield f"{setting}, {'channels_last' if layout == torch.channels_last else 'NCHW'}", run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steps", "matmul", "conv"))
    parser.add_argument("names", nargs="+", help="workloads, or sizes")
    parser.add_argument("--seconds", type=float, default=2.0, help="time of all rounds of a setting together")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--settings", default="eager,max-autotune", help="of steps, with commas: " + ", ".join(SETTINGS))
    arguments = parser.parse_args()
    settings = arguments.settings.split(",")
    for setting in settings:
        if setting not in SETTINGS:
            parser.error(f"there is no setting '{setting}'; there are {', '.join(SETTINGS)}")
    if "graph" in settings and not arguments.device.startswith("cuda"):
        parser.error(f"CUDA graphs are for GPUs, not for {arguments.device}; leave the setting graph out")
    torch.backends.cudnn.benchmark = True
    for name in arguments.names:
        if arguments.what == "steps":
            if name not in WORKLOADS:
                parser.error(f"there is no workload '{name}'; there are {', '.join(WORKLOADS)}")
            for setting in settings:
                try:
                    report(name, setting, make_step(name, setting, arguments.device), arguments)
                except Exception as error:  # such as a compilation without a C compiler: the other settings still run
                    print_line({"workload": name, "setting": setting, "error": f"{type(error).__name__}: {error}"[:300]})
            continue
        with torch.inference_mode():
            functions = products if arguments.what == "matmul" else convolutions
            for setting, function in functions(int(name), arguments.device):
                report(f"{arguments.what} {name}", setting, function, arguments)


if __name__ == "__main__":
    main()
