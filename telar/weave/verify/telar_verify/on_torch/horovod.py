"""A stand-in of horovod.torch over gloo, for machines without Horovod: it has what woven scripts use, with
Horovod's meaning. (Horovod 0.28 does not build with a current PyTorch.)"""
import contextlib
import sys
import types

import torch
import torch.distributed as dist

Average, Sum, Min, Max = "Average", "Sum", "Min", "Max"
OPERATIONS = {Average: dist.ReduceOp.SUM, Sum: dist.ReduceOp.SUM, Min: dist.ReduceOp.MIN,
              Max: dist.ReduceOp.MAX}


class Compression:
    none = "none"


def init(*arguments, **options):
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def shutdown():
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def is_initialized():
    return dist.is_initialized()


def barrier():
    dist.barrier()


def allreduce_(tensor, average=None, name=None, op=None):
    operation = Sum if average is False else op or Average
    dist.all_reduce(tensor, op=OPERATIONS[operation])
    if operation == Average:
        if tensor.is_floating_point():
            tensor /= size()
        else:
            tensor.copy_(tensor // size())
    return tensor


def grouped_allreduce_(tensors, average=None, name=None, op=None):
    return [allreduce_(tensor, average, name, op) for tensor in tensors]


def allreduce(tensor, average=None, name=None, op=None, **options):
    return allreduce_(tensor.detach().clone(), average, name, op)


def allgather_object(thing, name=None):
    parts = [None] * size()
    dist.all_gather_object(parts, thing)
    return parts


def allgather(tensor, name=None):
    return torch.cat(allgather_object(tensor.detach().clone()))


def broadcast_(tensor, root_rank, name=None):
    dist.broadcast(tensor, root_rank)
    return tensor


def broadcast(tensor, root_rank, name=None):
    return broadcast_(tensor.detach().clone(), root_rank)


def broadcast_object(thing, root_rank=0, name=None):
    things = [thing]
    dist.broadcast_object_list(things, root_rank)
    return things[0]


def broadcast_parameters(parameters, root_rank):
    for _, value in sorted(parameters.items()) if isinstance(parameters, dict) else list(parameters):
        if torch.is_tensor(value):
            dist.broadcast(value.data, root_rank)


def broadcast_optimizer_state(optimizer, root_rank):
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))


class _Members:
    """The methods of the class that DistributedOptimizer derives from the optimizer's."""

    def synchronize(self):
        for group in self.param_groups:
            for one in group["params"]:
                if one.requires_grad:
                    one.grad = torch.zeros_like(one) if one.grad is None else one.grad
                    allreduce_(one.grad, op=self.telar_operation)
        self.telar_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        self.telar_skips = True
        yield
        self.telar_skips = False

    def step(self, closure=None):
        if not self.telar_skips:
            self.synchronize()
        self.telar_synchronized = False
        return super(self.__class__, self).step(closure)

    def zero_grad(self):
        return super(self.__class__, self).zero_grad()


def DistributedOptimizer(optimizer, named_parameters=None, compression=None, backward_passes_per_step=1,
                         op=Average, **options):
    members = {name: value for name, value in vars(_Members).items() if not name.startswith("__")}
    kind = type(optimizer.__class__.__name__, (optimizer.__class__,), members)
    made = kind.__new__(kind)
    made.__dict__.update(optimizer.__dict__)
    made.telar_operation, made.telar_skips, made.telar_synchronized = op, False, False
    return made


def install(steps):
    """Makes `import horovod.torch` find this module, also where Horovod is installed."""
    module = types.ModuleType("horovod.torch")
    names = ("Average Sum Min Max Compression init shutdown rank size is_initialized barrier allreduce "
             "allreduce_ grouped_allreduce_ allgather allgather_object broadcast broadcast_ broadcast_object "
             "broadcast_parameters broadcast_optimizer_state").split()
    for name in names:
        setattr(module, name, globals()[name])
    module.local_rank, module.local_size, module.cross_rank = rank, size, lambda: 0

    def distributed(optimizer, *arguments, **options):
        made = DistributedOptimizer(optimizer, *arguments, **options)
        steps.wrap(type(made))
        return made

    module.DistributedOptimizer = distributed
    package = types.ModuleType("horovod")
    package.__path__ = []
    package.torch = module
    sys.modules["horovod"], sys.modules["horovod.torch"] = package, module
