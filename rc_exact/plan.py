"""The graph of a piecewise-linear network in float64; any other layer is refused by name."""

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx, nn
from torch.nn import functional as F

# Modules that are affine in evaluation mode.
AFFINE_MODULES = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout,
    nn.Dropout2d, nn.ZeroPad2d,
)  # fmt: skip
AFFINE_FUNCTIONS = {
    operator.add, operator.iadd, operator.sub, operator.isub, operator.neg, operator.getitem,
    torch.add, torch.sub, torch.neg, torch.cat, torch.concat, torch.chunk, torch.split,
    torch.flatten, torch.reshape, torch.transpose, torch.permute, torch.squeeze, torch.unsqueeze,
    torch.mean, torch.sum, torch.stack, F.adaptive_avg_pool2d, F.avg_pool2d, F.pad,
}  # fmt: skip
AFFINE_METHODS = {
    "add", "sub", "neg", "chunk", "split", "flatten", "unflatten", "reshape", "view", "transpose",
    "permute", "contiguous", "squeeze", "unsqueeze", "mean", "sum",
}  # fmt: skip
# Affine as long as one factor (the divisor, the weights of a layer) is no activation.
PRODUCT_FUNCTIONS = {
    operator.mul, operator.imul, operator.truediv, operator.itruediv, operator.matmul, torch.mul,
    torch.div, torch.matmul, F.linear, F.conv2d,
}  # fmt: skip
PRODUCT_METHODS = {"mul", "div", "matmul"}
POOL_OPTIONS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
KINK_MODULES = {
    nn.ReLU: lambda m: [0.0],
    nn.LeakyReLU: lambda m: [0.0],
    nn.PReLU: lambda m: [0.0],
    nn.ReLU6: lambda m: [0.0, 6.0],
    nn.Hardtanh: lambda m: [m.min_val, m.max_val],
}
KINK_FUNCTIONS = {
    F.relu: [0.0], torch.relu: [0.0], F.leaky_relu: [0.0], F.relu6: [0.0, 6.0], torch.abs: [0.0],
}  # fmt: skip
KINK_METHODS = {"relu": [0.0], "abs": [0.0]}
# What may be given the number of points, to keep it as the first dimension of a shape.
RESHAPING = {"view", "reshape", torch.reshape}
NOT_PIECEWISE_LINEAR = (
    "is not piecewise linear, or not known to be. Known: Linear, Conv2d, BatchNorm, ReLU, "
    "LeakyReLU, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Flatten, Identity, Dropout, sums, "
    "concatenation, chunks, reshaping and products with constants. Other networks are counted with "
    'region_count(..., strategy="adaptive")'
)
# What may return a view of its first argument, so that a change of the result changes that as well.
VIEWS = {
    operator.getitem, torch.chunk, torch.split, torch.flatten, torch.reshape, torch.transpose,
    torch.permute, torch.squeeze, torch.unsqueeze, F.dropout, "chunk", "split", "flatten",
    "unflatten", "reshape", "view", "transpose", "permute", "contiguous", "squeeze", "unsqueeze",
    nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout2d, nn.ReLU, nn.LeakyReLU,
    nn.ReLU6, nn.Hardtanh,
}  # fmt: skip
IN_PLACE_OPERATORS = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


@dataclass(frozen=True, eq=False)
class Step:
    """One node of the graph.

    kind: "affine" (`call` is affine between breakpoints), "reshape" (that, and may be given the
    number of points), "kink" (piecewise linear with corners at `thresholds` of its first argument),
    "max_pool" or "size" (of an activation, read by the network). `dead`: names of the values that
    no later step reads.
    """

    name: str
    kind: str
    call: Callable
    args: tuple
    kwargs: dict
    thresholds: tuple = ()
    dead: tuple = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps in order, the names of input and output, constants by name, and the network traced.

    Constants are weights, and what is computed of weights alone. The network is a copy in float64.
    """

    steps: list
    input: str
    output: str
    constants: dict
    network: nn.Module


def make_plan(network, device=None):
    """Plan of a copy of `network` in evaluation mode and float64.

    Raises ValueError, naming the layer, where torch.fx cannot trace or it is not piecewise linear.
    """
    _refuse_hooks(network, type(network).__name__)  # which torch.fx does not see
    try:
        network = copy.deepcopy(network).eval().double().to(device)
        graph_module = fx.symbolic_trace(network)
    except (fx.proxy.TraceError, TypeError, RuntimeError, NameError, AssertionError) as error:
        raise ValueError(
            f"torch.fx cannot copy and trace {type(network).__name__}: {error}. exact_segment "
            "needs a forward pass without control flow that depends on data, and weights that no "
            "hook computes (prune.remove and remove_weight_norm make them permanent)"
        ) from error
    for node in graph_module.graph.nodes:
        if node.op in ("call_function", "call_module") and not node.args and "input" in node.kwargs:
            # Steps look at their first argument, which torch calls so.
            node.args = (node.kwargs["input"],)
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != "input"}
    nodes = list(graph_module.graph.nodes)
    inputs, name = [node for node in nodes if node.op == "placeholder"], type(network).__name__
    refuse_unless(len(inputs) == 1, name, f"takes {len(inputs)} inputs; expected one")
    depends = {inputs[0]}
    for node in nodes:
        if any(argument in depends for argument in node.all_input_nodes) and not _is_size(node):
            depends.add(node)
    last_use = {source: node for node in nodes for source in node.all_input_nodes}
    constants, steps = {}, []
    for node in nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            constants[node.name] = operator.attrgetter(node.target)(graph_module)
            continue
        if all(source.name in constants for source in node.all_input_nodes):
            constants[node.name] = _constant(node, graph_module, constants)
            continue
        dead = tuple(source.name for source in node.all_input_nodes if last_use[source] is node)
        steps.append(_step_of(node, graph_module, depends, dead))
    result = nodes[-1].args[0]
    single = isinstance(result, fx.Node)
    refuse_unless(single, name, "returns several values; expected one tensor")
    refuse_unless(result in depends, name, "returns what does not depend on its input")
    return Plan(steps, inputs[0].name, result.name, constants, network)


def _constant(node, graph_module, constants):
    """Value of a node that the input does not reach, such as weights times a mask."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: constants[one.name])
    if node.op == "call_module":
        return graph_module.get_submodule(node.target)(*args, **kwargs)
    call = getattr(torch.Tensor, node.target) if node.op == "call_method" else node.target
    in_place = call in IN_PLACE_OPERATORS or call.__name__.endswith("_")
    refuse_unless(not in_place, f"operation {node.name}", "changes a weight in the forward pass")
    return call(*args, **kwargs)


def _is_size(node):
    return node.target == "size" if node.op == "call_method" else node.target is getattr


class Refused(ValueError):
    """A network whose regions cannot be solved for; the message names what of it and why."""


def refuse_unless(condition, where, reason):
    """Raise Refused, naming what of the network cannot be taken and why, unless `condition`."""
    if not condition:
        raise Refused(f"exact_segment cannot take this network: {where} {reason}")


def _step_of(node, graph_module, depends, dead):
    """The step of a node, or ValueError naming it."""
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        where = f"layer {node.target} ({type(module).__name__})"
        kind, call, thresholds = _module_step(module, where)
        in_place = bool(getattr(module, "inplace", False))
    else:
        name = getattr(node.target, "__name__", str(node.target))
        where = f"operation {node.name} ({name})"
        kind, call, thresholds = _function_step(node, where, depends)
        in_place = node.target in IN_PLACE_OPERATORS or node.kwargs.get("inplace", False)
    spoils = in_place and _is_read_again(node.args[0], graph_module)
    reason = "works in place on a value that is read again; use the version out of place"
    refuse_unless(not spoils, where, reason)
    kwargs = {key: value for key, value in node.kwargs.items() if key != "inplace"}
    return Step(node.name, kind, call, node.args, kwargs, tuple(thresholds), dead)


def _is_read_again(node, graph_module):
    """Whether the memory of a node's value has another reader than the step at hand."""
    while isinstance(node, fx.Node):
        if len(node.users) > 1:
            return True
        made_by = node.target
        if node.op == "call_module":
            made_by = type(graph_module.get_submodule(node.target))
        if made_by not in VIEWS and made_by not in IN_PLACE_OPERATORS:
            return False
        node = node.args[0]
    return False


def _refuse_hooks(module, where):
    computed = module._forward_pre_hooks.values()
    known = all(type(hook).__module__.startswith("torch.nn.utils") for hook in computed)
    changed = module._forward_hooks or "forward" in vars(module) or not known
    refuse_unless(not changed, where, "has a hook or a forward of its own, which may bend")


def _module_step(module, where):
    kind = type(module)
    _refuse_hooks(module, where)
    if kind in KINK_MODULES:
        return "kink", module, KINK_MODULES[kind](module)
    if kind is nn.MaxPool2d:
        options = {key: getattr(module, key) for key in POOL_OPTIONS}
        return "max_pool", _pool_settings(where, **options), ()
    refuse_unless(kind in AFFINE_MODULES, where, NOT_PIECEWISE_LINEAR)
    normalises = isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)
    reason = "normalises by the statistics of the batch: not a function of a point"
    refuse_unless(not (normalises and module.running_mean is None), where, reason)
    return "affine", module, ()


def _function_step(node, where, depends):
    method = node.op == "call_method"
    call = getattr(torch.Tensor, node.target, None) if method else node.target
    if node.target in (KINK_METHODS if method else KINK_FUNCTIONS):
        return "kink", call, (KINK_METHODS if method else KINK_FUNCTIONS)[node.target]
    if node.target is F.max_pool2d:
        options = dict(zip(POOL_OPTIONS, node.args[1:], strict=False)) | node.kwargs
        return "max_pool", _pool_settings(where, **options), ()
    if node.target is F.dropout:
        training = node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True)
        reason = "drops units in evaluation mode too; pass training=self.training"
        refuse_unless(training is False, where, reason)
        return "affine", call, ()
    if _is_size(node):
        refuse_unless(method or node.args[1] == "shape", where, NOT_PIECEWISE_LINEAR)
        return "size", call, ()
    if node.target in (PRODUCT_METHODS if method else PRODUCT_FUNCTIONS):
        factors = [one for one in (*node.args, *node.kwargs.values()) if one in depends]
        divides = "div" in getattr(node.target, "__name__", str(node.target))
        in_divisor = bool(factors) and divides and node.args[0] not in depends
        by_activation = len(factors) > 1 or in_divisor
        reason = "multiplies or divides by an activation, which is not piecewise linear"
        refuse_unless(not by_activation, where, reason)
        rounds = node.kwargs.get("rounding_mode") is not None
        refuse_unless(not rounds, where, "rounds, which is not piecewise linear")
        return "affine", call, ()
    known = AFFINE_METHODS if method else AFFINE_FUNCTIONS
    refuse_unless(node.target in known, where, NOT_PIECEWISE_LINEAR)
    rounds = node.kwargs.get("dtype", torch.float64) is not torch.float64
    refuse_unless(not rounds, where, "changes the type of numbers, which may round them")
    return "reshape" if node.target in RESHAPING else "affine", call, ()


def _pool_settings(
    where, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The arguments of `pool_windows` after the first."""
    plain = dilation in (1, (1, 1)) and not return_indices
    refuse_unless(plain, where, "has a dilation or returns indices; expected neither")
    options = kernel_size, kernel_size if stride is None else stride, padding
    pairs = (tuple(v) if isinstance(v, tuple | list) else (v, v) for v in options)
    return *pairs, ceil_mode
