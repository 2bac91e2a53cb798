"""Evaluating a classifier at many points: in chunks, in evaluation mode, in full float32, and leaving no trace."""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from rc_utils.checks import check_count
from rc_utils.regions.arrays import as_points, gather
from rc_utils.regions.classifier import as_classifier, labels_of, refuse_non_finite, tensor_of

OUT_OF_MEMORY_WORDS = (
    "out of memory", "not enough memory", "can't allocate memory", "alloc_failed", "allocation_failed",
    "unable to find an engine", "valid cudnn algorithm", "cublas_status_not_initialized",  # of cuDNN and cuBLAS
)  # fmt: skip


class Points(Protocol):
    """Data points (N, *shape): anything with a length and integer-array indexing."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class Predictor(Protocol):
    """A classifier as scikit-learn has them."""

    def predict(self, points: Any, /) -> Any: ...


Model = nn.Module | Predictor | Callable[[Any], Any]
"""What is counted; `as_classifier` says how its outputs are read."""


def predict_labels(model: Model, points: Points, *, batch_size: int | None = None) -> np.ndarray:
    """Predicted label of each point.

    Args:
        model: torch module, scikit-learn classifier or callable (`as_classifier` says how outputs are read).
        points: (N, *shape), anything with a length and integer-array indexing.
        batch_size: points in one forward pass; None chooses.

    Returns:
        (N,) integer NumPy array.

    Raises ValueError for points or scores that are not finite and for outputs of a wrong shape; MemoryError if one
    point is too many.
    """
    points = as_points(points)
    classifier = as_classifier(model, points)

    def batch_of(start, stop):
        return gather(points, np.arange(start, stop), classifier.device, classifier.dtype)

    labels = evaluate(classifier, batch_of, len(points), batch_size)
    refuse_non_finite(labels, lambda index: f"points[{index}]")
    return labels.cpu().numpy()


def evaluate(classifier, batch_of, total, batch_size=None):
    """Labels (total,) on the classifier's device; `batch_of(start, stop)` makes a batch of consecutive points.

    Running out of memory halves the chunk and goes on. Chunks are as equal in size as they can be: the last bits of a
    matrix product can differ for very small batches, and no small remainder is left this way.

    Raises ValueError if the model does not take the batch, MemoryError if one point is too many.
    """
    buffers = read_outputs(classifier, batch_of, total, lambda output, n: [labels_of(output, n)], batch_size)
    return buffers[0] if buffers else torch.zeros(0, dtype=torch.int64, device=classifier.device)


def read_outputs(classifier, batch_of, total, read, batch_size=None):
    """As `evaluate`, a tensor (total, ...) for each tensor (n, ...) that `read(output, n)` makes of n outputs."""
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)
    buffers, done, chunk = [], 0, batch_size
    with undisturbed(classifier):
        while done < total:
            chunk = chunk or default_chunk(batch_of(done, done + 1)[0].numel(), classifier)
            left = total - done
            size = -(-left // -(-left // chunk))
            parts = _try_chunk(classifier, batch_of, done, done + size, read)
            if parts is None:
                # Freed here, after the exception and the frames it holds are gone.
                torch.cuda.empty_cache()
                chunk = size // 2
                continue
            # One buffer each: a small tensor kept from every chunk would keep the allocator from reusing its memory.
            buffers = buffers or [part.new_empty((total, *part.shape[1:])) for part in parts]
            for buffer, part in zip(buffers, parts, strict=True):
                buffer[done : done + size] = part
            done += size
    return buffers


def _try_chunk(classifier, batch_of, start, stop, read):
    """What is read of one chunk, or None if memory ran out for more than one point."""
    try:
        return read(_output_of_chunk(classifier, batch_of(start, stop)), stop - start)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        if stop - start == 1:
            raise MemoryError(
                f"out of memory for a single point on {classifier.device}: free memory or use another device ({error})"
            ) from error
    return None


def _output_of_chunk(classifier, batch):
    try:
        output = classifier.call(batch)
    except (RuntimeError, ValueError) as error:
        if _is_out_of_memory(error):
            raise
        raise ValueError(
            f"the model failed on a batch of shape {tuple(batch.shape)}: {error}. Have the points the shape it takes?"
        ) from error
    return tensor_of(output)


def _is_out_of_memory(error):
    said = any(words in str(error).lower() for words in OUT_OF_MEMORY_WORDS)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and said)


def default_chunk(num_features, classifier):
    """Points in one forward pass, from the size of a point alone, so that the same machine gives the same bits.

    On a CPU small convolutional networks are fastest where a layer's output stays in the cache (100 to 400 images of
    16 x 16, 10 % slower at 1,000); an accelerator wants large batches; scikit-learn has a high cost per call.
    """
    num_bytes = 4 * num_features
    if classifier.per_call_cost:
        return min(65536, max(1, (32 << 20) // num_bytes))
    if classifier.device.type != "cpu":
        return min(16384, max(1, (64 << 20) // num_bytes))
    in_cache = min(4096, max(400, (5 << 18) // num_bytes))
    return min(in_cache, max(1, (8 << 20) // num_bytes))


@contextlib.contextmanager
def undisturbed(classifier):
    """Evaluation mode, no gradients, no autocast, no TF32; afterwards all modes and random states are as before."""
    mode = contextlib.nullcontext() if classifier.module is None else evaluation_mode(classifier.module)
    no_autocast = torch.autocast(classifier.device.type, enabled=False)
    # Not inference_mode: tensors that a module makes and keeps under it could not be trained with afterwards.
    with mode, full_precision(), own_random_state(classifier.device), no_autocast, torch.no_grad():
        yield


def own_random_state(device):
    """Inside the block, random numbers of the CPU and of `device` are drawn without a trace."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextlib.contextmanager
def evaluation_mode(module):
    """Evaluation mode inside the block; every submodule is back in its own mode afterwards.

    A frozen TorchScript module has no other. Raises ValueError for a module whose mode cannot be set.
    """
    training = [(part, part.training) for part in module.modules() if hasattr(part, "training")]
    try:
        if training:
            module.eval()
    except NotImplementedError as error:
        raise ValueError(
            f"{type(module).__name__} cannot be put into evaluation mode: {error} If it is a program that was exported "
            "in that mode, give a function that calls it: lambda x: module(x)"
        ) from error
    try:
        yield module
    finally:
        for part, mode in training:
            part.training = mode


class _Switches:
    """The values of torch's precision switches before the first of the blocks that are open now, in any thread."""

    lock = threading.Lock()
    num_open = 0
    before: tuple = ()


@contextlib.contextmanager
def full_precision():
    """No TF32 inside the block; every switch that torch has for it reads as before afterwards.

    The switches are the whole process's: where blocks of several threads overlap, the last to end sets them back.

    The older switches go with the newer: reading one, as torch.backends.cudnn.flags does, is an error where they
    disagree. A newer one that only follows a wider one goes on following it; cuDNN's, which do so by default, are set
    from then on: torch 2.13 has no call that undoes that.
    """
    with _Switches.lock:
        switches = _switches()
        if _Switches.num_open == 0:
            _Switches.before = switches
        _Switches.num_open += 1
        for switch, full, _ in switches:
            switch(full)
    try:
        yield
    finally:
        with _Switches.lock:
            _Switches.num_open -= 1
            if _Switches.num_open == 0:
                for switch, _, value in _Switches.before:
                    switch(value)


def _switches():
    """(setter, value without TF32, value now) of the switches of torch, older ones where it does not refuse them."""
    backends, found = torch.backends, []
    with contextlib.suppress(RuntimeError):
        found.append((torch.set_float32_matmul_precision, "highest", torch.get_float32_matmul_precision()))
    with contextlib.suppress(RuntimeError):
        found.append((functools.partial(setattr, backends.cudnn, "allow_tf32"), False, backends.cudnn.allow_tf32))
    owners = [backends.cuda.matmul, backends.mkldnn.matmul]
    owners += [getattr(backend, op) for backend in (backends.cudnn, backends.mkldnn) for op in ("conv", "rnn")]
    return found + [(functools.partial(_set_precision, owner), "ieee", owner.fp32_precision) for owner in owners]


def _set_precision(owner, value):
    """Set the switch of an operation, which follows a wider one where that has this value."""
    for setting in ("none", value):
        if owner.fp32_precision != value:
            owner.fp32_precision = setting
