"""A card that is not there: its tensors say cuda:0, compute on the CPU and refuse those of the CPU.

Inside `pretended_gpu()` the code under test takes its GPU paths. An operation on tensors of both
devices, or a NumPy view of one that is "on the card", fails as it would there. Speed, memory and
rounding of a card are not shown.
"""

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")


class Pretended(torch.Tensor):
    """A tensor "on the card": its values are in `inner`, a tensor of the CPU."""

    @staticmethod
    def __new__(cls, inner):
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        options = layout | {"dtype": inner.dtype, "device": CPU}
        tensor = torch.Tensor._make_wrapper_subclass(cls, inner.size(), **options)
        tensor.inner = inner
        return tensor

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    __torch_function__ = torch._C._disabled_torch_function_impl

    def numpy(self, *_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    __array__ = numpy

    def tolist(self):
        return _moved(self.detach(), CPU).tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _Dispatch.call(func, args, kwargs or {})


def _moved(tensor, device):
    """The tensor on the other device, with its gradient; itself where it is there."""
    if isinstance(tensor, Pretended) == (device.type == "cuda"):
        return tensor
    _Dispatch.is_moving = True
    moved = torch.ops.aten._to_copy.default(tensor, device=torch.device(device.type))
    _Dispatch.is_moving = False
    return moved


class _Dispatch(TorchDispatchMode):
    """Every operation: refuses tensors of both devices, computes on the CPU, wraps the card's."""

    is_moving = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.call(func, args, kwargs or {})

    @classmethod
    def call(cls, func, args, kwargs):
        name = func._schema.name
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if name not in ("aten::_to_copy", "aten::copy_"):
            _check_devices(name, args, tensors)
        first = tensors[: 1 if name == "aten::copy_" else None]
        on_card = any(isinstance(t, Pretended) for t in first)
        if kwargs.get("device") is not None:
            # A change of dtype names the device that the wrapper has in C++, the CPU.
            if name != "aten::_to_copy" or cls.is_moving:
                on_card = torch.device(kwargs["device"]).type == "cuda"
            kwargs = {**kwargs, "device": CPU}
        cards = {id(t.inner): t for t in tensors if isinstance(t, Pretended)}
        bare = lambda a: a.inner if isinstance(a, Pretended) else a  # noqa: E731
        inner_args, inner_kwargs = tree_map(bare, (args, kwargs))
        result = func(*inner_args, **inner_kwargs)

        def wrapped(value):
            if not isinstance(value, torch.Tensor):
                return value
            changed_in_place = cards.get(id(value))
            if changed_in_place is not None:
                return changed_in_place
            return Pretended(value) if on_card else value

        return tree_map(wrapped, result)


def _check_devices(name, args, tensors):
    """Raise RuntimeError where a card refuses: numbers and positions may come from the CPU."""
    on_card = [t for t in tensors if isinstance(t, Pretended)]
    elsewhere = [t for t in tensors if not isinstance(t, Pretended) and t.ndim > 0]
    if name.removeprefix("aten::") in INDEXING and isinstance(args[0], Pretended):
        elsewhere = [t for t in elsewhere if not any(t is index for index in args[1])]
    if on_card and elsewhere:
        found = f"but found cuda:0 and cpu ({name})"
        raise RuntimeError(f"Expected all tensors to be on the same device, {found}")


class _Functions(TorchFunctionMode):
    """What torch decides in C++ by the device of a tensor: moves, and "cuda" without an index."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.cpu, torch.Tensor.cuda):
            return _moved(args[0], CPU if func is torch.Tensor.cpu else CUDA)
        if func is torch.Tensor.to:
            return _to(*args, **kwargs)
        if str(kwargs.get("device")) == "cuda":
            kwargs["device"] = CUDA
        return func(*args, **kwargs)


def _to(tensor, *args, device=None, non_blocking=False, copy=False, **kwargs):
    """`Tensor.to` in any of its forms."""
    if args and isinstance(args[0], torch.Tensor):
        args = (args[0].device, args[0].dtype)
    device = next((a for a in args if isinstance(a, str | torch.device)), device)
    kwargs["dtype"] = next((a for a in args if isinstance(a, torch.dtype)), kwargs.get("dtype"))
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    result = torch.Tensor.to(tensor, **kwargs) if kwargs else tensor
    result = result if device is None else _moved(result, torch.device(device))
    return result.clone() if copy and result is tensor else result


@contextlib.contextmanager
def pretended_gpu():
    """A context in which "cuda" can be used, with one card."""
    state = {"now": torch.zeros(16, dtype=torch.uint8)}
    of_cuda = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "empty_cache": lambda: None,
        "get_device_name": lambda *_: "pretended",
        "is_bf16_supported": lambda *_: True,
        "get_device_capability": lambda *_: (9, 0),
        "device": contextlib.nullcontext,
        "manual_seed": lambda seed: state.update(now=state["now"] + seed % 251),
        "get_rng_state": lambda *_: state["now"],
        "set_rng_state": lambda new, *_: state.update(now=new),
    }
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    parse_to = torch._C._nn._parse_to

    def parse(*args, **kwargs):
        to_card = args and isinstance(args[0], Pretended)
        return (CUDA, args[0].dtype, False, None) if to_card else parse_to(*args, **kwargs)

    def from_data(make):
        def made(data, *args, device=None, dtype=None, **kwargs):
            if not isinstance(data, Pretended):
                data = make(data, *args, dtype=dtype, **kwargs)
            return data.to(device=device, dtype=dtype)

        return made

    with pytest.MonkeyPatch.context() as patch:
        for name, value in of_cuda.items():
            patch.setattr(torch.cuda, name, value)
        for kind in ("accelerator", "cuda"):
            check = f"_{kind}_graph_capture_health_check"
            patch.setattr(torch.optim.Optimizer, check, lambda self: None, raising=False)
        patch.setattr(torch._C._nn, "_parse_to", parse)
        patch.setattr(torch, "tensor", from_data(torch.tensor))
        patch.setattr(torch, "as_tensor", from_data(torch.as_tensor))
        # A wrapper has no version counter, which tensors of the inference mode lack.
        patch.setattr(torch, "inference_mode", torch.no_grad)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            with _Functions(), _Dispatch():
                yield
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
