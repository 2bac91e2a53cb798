"""Evaluation and random numbers that leave modules, precision and generators as they were."""

import contextlib
import functools
import random

import numpy as np
import torch


@functools.cache
def keep_freed_memory():
    """Let glibc keep the memory of temporaries: a quarter of a narrow network's time."""
    # It keeps them once a large block was freed; 32 MiB is the most that it learns from.
    torch.empty(31 << 20, dtype=torch.uint8)


@contextlib.contextmanager
def undisturbed(module, device):
    """Evaluation mode, no gradients, autocast or TF32; modes and random states are kept."""
    keep_freed_memory()
    mode = contextlib.nullcontext() if module is None else evaluation_mode(module)
    no_autocast = torch.autocast(device.type, enabled=False)
    # Not inference_mode: what a module makes and keeps under it could not be trained afterwards.
    with mode, full_precision(), own_random_state(device), no_autocast, torch.no_grad():
        yield


@contextlib.contextmanager
def evaluation_mode(module):
    """Evaluation mode inside the block, then each part's own."""
    # Frozen TorchScript has no mode of its own.
    modes = [(part, getattr(part, "training", False)) for part in module.modules()]
    if not any(mode for _, mode in modes):  # as inside another such block
        yield
        return
    try:
        module.eval()
    except NotImplementedError:  # of an exported program, which has no modes, or with one as a part
        for part, _ in modes:
            part.training = False
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError):
            module.train(modes[0][1])  # a change of mode may do more than set a flag
        for part, mode in modes:
            part.training = mode


@contextlib.contextmanager
def full_precision():
    """No TF32 in this process inside the block; afterwards all switches of it are as before."""
    cudnn, mkldnn = torch.backends.cudnn, torch.backends.mkldnn
    operations = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    operations += [mkldnn.matmul, mkldnn.conv, mkldnn.rnn]
    with contextlib.ExitStack() as afterwards:
        for operation in operations:
            afterwards.callback(_set_precision, operation, operation.fp32_precision)
        # Reading an older switch is an error where it disagrees with these: it is left alone then.
        with contextlib.suppress(RuntimeError):
            before = torch.get_float32_matmul_precision()
            afterwards.callback(torch.set_float32_matmul_precision, before)
            torch.set_float32_matmul_precision("highest")
        with contextlib.suppress(RuntimeError):
            afterwards.callback(setattr, cudnn, "allow_tf32", cudnn.allow_tf32)
            cudnn.allow_tf32 = False
        for operation in operations:
            operation.fp32_precision = "ieee"
        yield


def _set_precision(operation, value):
    """Set the switch of an operation, which follows a wider one where that has this value."""
    operation.fp32_precision = "none"
    if operation.fp32_precision != value:
        operation.fp32_precision = value


@contextlib.contextmanager
def own_random_state(device="cpu", seed=None):
    """Restore torch's random states of the CPU and `device` after the block.

    seed: seeds them, NumPy's and Python's inside the block; the latter two are then restored, too.
    """
    device = torch.device(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), contextlib.ExitStack() as afterwards:
        if seed is not None:
            afterwards.callback(random.setstate, random.getstate())
            afterwards.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
            random.seed(int(seed))
            np.random.seed(int(seed) % 2**32)  # noqa: NPY002
            # torch.manual_seed would seed the generators of all devices.
            torch.default_generator.manual_seed(int(seed))
            if device.type == "cuda":
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(int(seed))
        yield
