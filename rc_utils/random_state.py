"""Random numbers that leave no trace in the caller's generators."""

import contextlib
import random

import numpy as np
import torch


@contextlib.contextmanager
def own_random_state(device="cpu", seed=None):
    """Inside the block, torch draws random numbers on the CPU and `device` without a trace.

    seed: of these, and of NumPy's and Python's, which leave no trace then either.
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
