"""The command line: a folder per family of commands, and the tables, trees and JSON that they print.

A module that ends in ``_command`` holds a command. A command reads its input, calls the package that does the work,
and prints the result; it makes no decisions. ``entry_point`` documents the exit status. Modules import other packages
when a command runs, so that ``pumice --help`` answers at once.
"""
