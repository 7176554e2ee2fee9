"""The operators' doors: the HTTP API, the command line that uses it, and metrics.

Nothing is imported here: a command that asks the API loads nothing of the server.
"""
