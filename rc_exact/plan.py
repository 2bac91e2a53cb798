"""The graph of a piecewise-linear network in float64; errors name any other layer."""

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
# Operations whose shape arguments may contain the number of points, as the first dimension.
RESHAPING = {"view", "reshape", torch.reshape}
NOT_PIECEWISE_LINEAR = (
    "is not piecewise linear, or not known to be. Known: Linear, Conv2d, BatchNorm, ReLU, "
    "LeakyReLU, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Flatten, Identity, Dropout, sums, "
    "concatenation, chunks, reshaping and products with constants. Other networks are counted with "
    'region_count(..., strategy="adaptive")'
)
# Operations that may return a view of their first argument, which a change in place changes too.
VIEWS = {
    operator.getitem, torch.chunk, torch.split, torch.flatten, torch.reshape, torch.transpose,
    torch.permute, torch.squeeze, torch.unsqueeze, F.dropout, "chunk", "split", "flatten",
    "unflatten", "reshape", "view", "transpose", "permute", "contiguous", "squeeze", "unsqueeze",
    nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout2d,
}  # fmt: skip
IN_PLACE_OPERATORS = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


@dataclass(frozen=True, eq=False)
class Step:
    """One node of the graph.

    kind: "affine" (`call` is affine between breakpoints), "reshape" (affine, and its arguments may
    contain the number of points), "kink" (piecewise linear, with corners where the first argument
    is one of `thresholds`), "max_pool" or "size" (the shape of an activation). `dead`: names of the
    values that no later step reads.
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
    """Steps in order, names of the input and the output, constants by name, and the network.

    Constants are weights and values computed from weights alone. `network` is the float64 copy.
    """

    steps: list
    input: str
    output: str
    constants: dict
    network: nn.Module


def make_plan(network, device=None):
    """Plan of a copy of `network` in evaluation mode and float64.

    Raises ValueError if torch.fx cannot trace the network or a layer, named, is not piecewise
    linear.
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
            # Steps expect their first argument, which torch calls `input`, by position.
            node.args = (node.kwargs["input"],)
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != "input"}
    nodes, name = list(graph_module.graph.nodes), type(network).__name__
    inputs = [node for node in nodes if node.op == "placeholder"]
    refuse_unless(len(inputs) == 1, name, f"takes {len(inputs)} inputs; expected one")
    activations = {inputs[0]}
    for node in nodes:
        if any(source in activations for source in node.all_input_nodes) and not _is_size(node):
            activations.add(node)
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
        steps.append(_step_of(node, graph_module, activations, dead))
    result = nodes[-1].args[0]
    single = isinstance(result, fx.Node)
    refuse_unless(single, name, "returns several values; expected one tensor")
    refuse_unless(result in activations, name, "returns a value that ignores its input")
    return Plan(steps, inputs[0].name, result.name, constants, network)


def _constant(node, graph_module, constants):
    """Value of a node that does not depend on the input, such as weights times a mask."""
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
    """Raised for a network that cannot be solved; the message names the part and the reason."""


def refuse_unless(condition, where, reason):
    """Raise Refused unless `condition`; `where` is the part of the network, `reason` the fault."""
    if not condition:
        raise Refused(f"exact_segment cannot take this network: {where} {reason}")


def _step_of(node, graph_module, activations, dead):
    """Step of a node; raises Refused where it is not piecewise linear."""
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        where = f"layer {node.target} ({type(module).__name__})"
        kind, call, thresholds = _module_step(module, where)
        in_place = bool(getattr(module, "inplace", False))
    else:
        name = getattr(node.target, "__name__", str(node.target))
        where = f"operation {node.name} ({name})"
        kind, call, thresholds = _function_step(node, where, activations)
        in_place = node.target in IN_PLACE_OPERATORS or node.kwargs.get("inplace", False)
    spoils = in_place and _is_read_again(node.args[0], graph_module)
    reason = "works in place on a value that is read again; use the version out of place"
    refuse_unless(not spoils, where, reason)
    kwargs = {key: value for key, value in node.kwargs.items() if key != "inplace"}
    return Step(node.name, kind, call, node.args, kwargs, tuple(thresholds), dead)


def _is_read_again(node, graph_module):
    """Whether any step but the current one reads the memory of a node's value."""
    while isinstance(node, fx.Node):
        if sum(not _is_size(user) for user in node.users) > 1:
            return True
        made_by, in_place = node.target, node.target in IN_PLACE_OPERATORS
        if node.op == "call_module":
            module = graph_module.get_submodule(node.target)
            made_by, in_place = type(module), getattr(module, "inplace", False)
        if made_by not in VIEWS and not in_place:
            return False
        node = node.args[0]
    return False


def _refuse_hooks(module, where):
    pre_hooks = module._forward_pre_hooks.values()
    known = all(type(hook).__module__.startswith("torch.nn.utils") for hook in pre_hooks)
    plain = known and not module._forward_hooks and "forward" not in vars(module)
    refuse_unless(plain, where, "has a hook or its own forward, which may not be piecewise linear")


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
    refuse_unless(not normalises or module.running_mean is not None, where, reason)
    return "affine", module, ()


def _function_step(node, where, activations):
    method = node.op == "call_method"
    call = getattr(torch.Tensor, node.target, None) if method else node.target
    kinks = KINK_METHODS if method else KINK_FUNCTIONS
    if node.target in kinks:
        return "kink", call, kinks[node.target]
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
    if not method and activations.isdisjoint(node.all_input_nodes):
        return "affine", call, ()  # of sizes alone, as in x.shape[1] // 2
    if node.target in (PRODUCT_METHODS if method else PRODUCT_FUNCTIONS):
        factors = [f for f in (*node.args, *node.kwargs.values()) if f in activations]
        in_divisor = "div" in call.__name__ and node.args[0] not in activations and bool(factors)
        reason = "multiplies or divides by an activation, which is not piecewise linear"
        refuse_unless(len(factors) < 2 and not in_divisor, where, reason)
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
    """Arguments of `pool_windows` after z: kernel size, stride and padding as pairs, ceil_mode."""
    plain = _pair(dilation) == (1, 1) and not return_indices
    refuse_unless(plain, where, "has a dilation or returns indices; expected neither")
    stride = kernel_size if stride is None else stride
    return *(_pair(v) for v in (kernel_size, stride, padding)), ceil_mode


def _pair(value):
    """Height and width of an option of torch: a number or a sequence of one or two."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return values if len(values) == 2 else 2 * values
