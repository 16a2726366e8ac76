"""The scheduler configuration as programs load it: parsed, checked against the plugins that are installed.

``pumice.engine.config`` describes a configuration and parses its text; it is part of the engine and pure. Which plugins
a name stands for depends on the installed distributions. So finding and loading them belongs here, outside the engine,
for every program: scheduler, simulator, replay and command line.

Imports ``engine``.
"""
