"""Evaluation of a model at many points: in batches, in evaluation mode, in full float32."""

import contextlib
import functools
import threading

import torch

# What torch, cuDNN and cuBLAS say where memory runs out.
OUT_OF_MEMORY_WORDS = (
    "out of memory", "not enough memory", "can't allocate memory", "alloc_failed",
    "allocation_failed", "unable to find an engine", "valid cudnn algorithm",
    "cublas_status_not_initialized",
)  # fmt: skip


@functools.cache
def keep_freed_memory():
    """Let glibc keep the memory of temporaries: a quarter of a narrow network's time.

    It gives them back to the system, and takes them page by page, until one large block was freed;
    32 MiB is the most that it learns from. Nothing is written to this one.
    """
    torch.empty(31 << 20, dtype=torch.uint8)


def read_outputs(classifier, batch_of, total, read, batch_size=None):
    """Tensors (total, ...), one for each tensor (n, ...) that `read(output, n)` makes of a batch.

    `batch_of(start, stop)` makes a batch of consecutive points. The module's modes, the switches of
    torch and the random state are afterwards as they were.

    Raises ValueError if the model does not take a batch, MemoryError if one point is too many.
    """
    keep_freed_memory()
    with undisturbed(classifier):
        return read_batches(classifier, batch_of, total, read, batch_size)


def read_batches(classifier, batch_of, total, read, batch_size=None):
    """As `read_outputs`, in the modes that hold where it is called.

    Running out of memory halves the batch. Batches are as equal in size as they can be: the last
    bits of a matrix product can differ for very small ones.
    """
    buffers, done, chunk = [], 0, batch_size
    while done < total:
        chunk = chunk or default_chunk(batch_of(done, done + 1)[0].numel(), classifier)
        left = total - done
        size = -(-left // -(-left // chunk))
        try:
            parts = read(classifier(batch_of(done, done + size)), size)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if size == 1:
                message = "out of memory for a single point: free memory or use another device than"
                raise MemoryError(f"{message} {classifier.device} ({error})") from error
            parts = None
        if parts is None:
            # Freed here, after the exception and the frames it holds are gone.
            torch.cuda.empty_cache()
            chunk = size // 2
            continue
        # A small tensor kept from every batch would keep the allocator from reusing its memory.
        buffers = buffers or [part.new_empty((total, *part.shape[1:])) for part in parts]
        for buffer, part in zip(buffers, parts, strict=True):
            buffer[done : done + size] = part
        done += size
        classifier.tick(size)
    return buffers


def is_out_of_memory(error):
    """Whether an exception says that memory ran out."""
    said = any(words in str(error).lower() for words in OUT_OF_MEMORY_WORDS)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and said)


def default_chunk(num_features, classifier):
    """Points in one forward pass, by the size of a point alone: one machine gives the same bits.

    On a CPU small convolutional networks are fastest where a layer's output stays in the cache; an
    accelerator wants large batches; scikit-learn has a high cost per call.
    """
    num_bytes = 4 * num_features
    if classifier.per_call_cost:
        return min(65536, max(1, (32 << 20) // num_bytes))
    if classifier.device.type != "cpu":
        return min(16384, max(1, (64 << 20) // num_bytes))
    in_cache = min(4096, max(32, (5 << 18) // num_bytes))
    return min(in_cache, max(1, (8 << 20) // num_bytes))


@contextlib.contextmanager
def undisturbed(classifier):
    """Evaluation mode, no gradients, autocast or TF32; modes and random states are kept."""
    module, device = classifier.module, classifier.device
    mode = contextlib.nullcontext() if module is None else evaluation_mode(module)
    no_autocast = torch.autocast(device.type, enabled=False)
    # Not inference_mode: what a module makes and keeps under it could not be trained afterwards.
    with mode, full_precision(), own_random_state(device), no_autocast, torch.no_grad():
        yield


def own_random_state(device):
    """Inside the block, random numbers of the CPU and of `device` are drawn without a trace."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextlib.contextmanager
def evaluation_mode(module):
    """Evaluation mode inside the block; every submodule is back in its own mode afterwards.

    A frozen TorchScript module has no other. Raises ValueError for a module whose mode is fixed.
    """
    modes = [(part, part.training) for part in module.modules() if hasattr(part, "training")]
    try:
        if modes:
            module.eval()
    except NotImplementedError as error:
        raise ValueError(
            f"{type(module).__name__} cannot be put into evaluation mode: {error} If it is a "
            "program that was exported in that mode, give a function: lambda x: module(x)"
        ) from error
    try:
        yield module
    finally:
        for part, mode in modes:
            part.training = mode


_LOCK = threading.Lock()
_OPEN: list = []  # of each block that is open, what the switches were when it began


@contextlib.contextmanager
def full_precision():
    """No TF32 inside the block; every switch that torch has for it reads as before afterwards.

    The switches are the whole process's: where blocks of several threads overlap, the last to end
    sets them back.
    """
    with _LOCK:
        _OPEN.append(_switches())
        for switch, full, _ in _OPEN[-1]:
            switch(full)
    try:
        yield
    finally:
        with _LOCK:
            before = _OPEN.pop()
            if not _OPEN:
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
