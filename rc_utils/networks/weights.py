"""Weights of a network during its training, as bytes of one safetensors file."""


def state_of(network):
    """State dict of a network as it is now."""
    # Cloned, because training goes on, and safetensors refuses parameters that share memory.
    state = network.state_dict()
    return {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}


def pack_weights(states):
    """Bytes of state dicts by epoch, None for the end; names begin with "<epoch>/" or "end/"."""
    from safetensors.torch import save

    named = {}
    for epoch, state in states.items():
        prefix = "end" if epoch is None else epoch
        named |= {f"{prefix}/{name}": value for name, value in state.items()}
    return save(named)


def unpack_weights(content):
    """State dicts by epoch from the bytes of `pack_weights`."""
    from safetensors.torch import load

    states = {}
    for key, value in load(content).items():
        prefix, _, name = key.partition("/")
        states.setdefault(None if prefix == "end" else int(prefix), {})[name] = value
    return states
