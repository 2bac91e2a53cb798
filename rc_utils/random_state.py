"""Random numbers that leave the caller's generators as they were."""

import contextlib
import random

import numpy as np
import torch


@contextlib.contextmanager
def own_random_state(device="cpu", seed=None):
    """Restore torch's random states of the CPU and `device` after the block.

    seed: seeds them, NumPy's and Python's inside the block; the latter two are then restored, too.
    """
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if seed is None:
            yield
            return
        of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.seed(int(seed))
        np.random.seed(int(seed) % 2**32)  # noqa: NPY002
        # torch.manual_seed would seed the generators of all devices.
        torch.default_generator.manual_seed(int(seed))
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(int(seed))
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002
