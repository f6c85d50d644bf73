"""From clone to running: interpreter, environments and Debian packages of the project.

Runs on the distribution's own Python (3.11 and newer) with nothing but the standard library,
started by `.ci/setup`. Progress and errors go to standard error; a command's result (a path)
goes to standard output.
"""
