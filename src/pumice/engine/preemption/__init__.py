"""Who makes room: preemptors, the search for victims, and the transaction that evicts them."""
