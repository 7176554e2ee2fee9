"""The RabbitMQ that clients and tools are told they speak to."""

# Clients choose by them what they rely on (docs/decisions/0013-clients-are-told-rabbitmq.md).
RABBITMQ_PRODUCT = "RabbitMQ"
RABBITMQ_VERSION = "3.10.8"
