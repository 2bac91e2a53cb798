"""What a run leaves on the disk of this machine: its record and its weights, which belong together."""

import hashlib

from rc_utils.checks import results_dir, write_atomically
from rc_utils.sweep import records
from rc_utils.sweep.knowledge import merge_records


def keep_record(record, weights=None):
    """Write a record to its place, with what lies there of the same network and it has not; returns what was written.

    Another process may have finished the same run in the meantime, for other counts. weights: bytes of its file.
    """
    from filelock import FileLock

    results_dir().mkdir(parents=True, exist_ok=True)
    with FileLock(results_dir() / "lock"):  # what is read of a record is still there when it is written
        old = record_on_disk(record["run_id"])
        record = record if old is None else merge_records(record, old)
        if weights is not None:
            write_atomically(records.weights_path(record["run_id"]), weights)
        records.write_record(record)
    return record


def record_on_disk(run_id):
    """The record of a run made on this machine, or None if there is none or a corrupt one."""
    path = records.record_path(run_id)
    try:
        return records.read_record(path) if path.exists() else None
    except records.CorruptRecord:
        return None


def kept_weights(record):
    """State dicts of a record's network by epoch, None for the end; None where they are not on this machine, damaged,
    or another network's: those that are kept have the hash that the record says.
    """
    from safetensors.torch import load

    path = records.weights_path(record["run_id"])
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != record["provenance"].get("weights_sha256"):
        return None
    states = {}
    for key, value in load(content).items():
        # Modules may have a slash in their names, parameters of an epoch begin with its number.
        epoch, slash, name = key.partition("/")
        if slash and epoch.isdigit():
            states.setdefault(int(epoch), {})[name] = value
        else:
            states.setdefault(None, {})[key] = value
    return states


def state_of(network):
    """The state dict of a network as it is now."""
    # Cloned, because training goes on, and safetensors refuses parameters that share memory.
    return {name: value.detach().cpu().clone().contiguous() for name, value in network.state_dict().items()}


def packed_weights(states):
    """Bytes of a safetensors file of state dicts by epoch; a name begins with "<epoch>/" where it is not of the end."""
    from safetensors.torch import save

    prefixes = {epoch: "" if epoch is None else f"{epoch}/" for epoch in states}
    return save({prefixes[epoch] + name: value for epoch, state in states.items() for name, value in state.items()})
