"""Evaluation that leaves a module's modes, random states and torch's precision as they were."""

import contextlib
import functools

import torch

from rc_utils.random_state import own_random_state


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
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield module
    finally:
        module.train(modes[0][1])  # a change of mode may do more than set a flag
        for part, mode in modes:
            part.training = mode


@contextlib.contextmanager
def full_precision():
    """No TF32 in the process inside the block; torch's switches of it read as before afterwards."""
    before = _switches()
    for switch, full, _ in before:
        switch(full)
    try:
        yield
    finally:
        for switch, _, value in before:
            switch(value)


def _switches():
    """(setter, value without TF32, value now) of torch's older and newer switches.

    Reading an older one is an error where they disagree; it is left out then.
    """
    backends, found = torch.backends, []
    with contextlib.suppress(RuntimeError):
        now = torch.get_float32_matmul_precision()
        found.append((torch.set_float32_matmul_precision, "highest", now))
    with contextlib.suppress(RuntimeError):
        older = functools.partial(setattr, backends.cudnn, "allow_tf32")
        found.append((older, False, backends.cudnn.allow_tf32))
    owners = [backends.cuda.matmul, backends.mkldnn.matmul]
    owners += [getattr(b, op) for b in (backends.cudnn, backends.mkldnn) for op in ("conv", "rnn")]
    for owner in owners:
        found.append((functools.partial(_set_precision, owner), "ieee", owner.fp32_precision))
    return found


def _set_precision(owner, value):
    """Set the switch of an operation, which follows a wider one where that has this value."""
    for setting in ("none", value):
        if owner.fp32_precision != value:
            owner.fp32_precision = setting
