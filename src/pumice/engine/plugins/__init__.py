"""The plugin interface, the chain of configured plugins, and the built-in plugins (``builtin``)."""
