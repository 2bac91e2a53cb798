"""Beyond the papers: the studies of the protocol, their rivals and their decision rules."""
