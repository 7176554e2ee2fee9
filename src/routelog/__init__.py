"""An AMQP 0-9-1 broker whose queues are durable logs.

The packages are links to the folders of the same names at the top of the repository.
"""
