"""Random numbers that leave no trace in the caller's generators."""

import contextlib
import random

import numpy as np
import torch


@contextlib.contextmanager
def own_random_state(device="cpu", seed=None):
    """Inside the block, random numbers of torch, NumPy and Python are drawn without a trace.

    Torch's on the CPU and on `device`. seed: of all of them; None goes on where they are.
    """
    device, before = torch.device(device), (random.getstate(), np.random.get_state())  # noqa: NPY002
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if seed is not None:
            seed = int(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            # torch.manual_seed would seed the generators of all devices.
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
