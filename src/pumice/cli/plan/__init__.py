"""``pumice plan``: what a change of queues, nodes or the configuration would do, before it is made."""
