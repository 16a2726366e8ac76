"""The scheduler configuration as programs load it: parsed, checked against the plugins that are installed.

``pumice.scheduling.config`` describes a configuration and parses its text; it is part of the engine and pure. Which
plugins a name stands for depends on the installed distributions, so finding and trying them belongs here, outside of
the engine, for every program: scheduler, simulator, replay and command line.

Imports ``scheduling``.
"""
