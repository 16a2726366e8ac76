"""Preemption and reclaim: choosing preemptors, searching for victims, and planning the transaction that evicts them."""
