"""Preemption rules: may one job lose a task so that another can start?"""
