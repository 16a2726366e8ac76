"""The command line: one module per command, and the tables, trees and JSON they print.

A command reads its files, hands them to the package that does the work, and prints the result; it decides
nothing. Exit status: 0 as asked, 1 an expectation does not hold, 2 bad input. Modules import the other
packages when a command runs, so that ``pumice --help`` answers at once.
"""
