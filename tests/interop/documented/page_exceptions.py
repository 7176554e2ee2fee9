"""What no test runs of the pages for users, with the reason, and what their readers have done before."""

from __future__ import annotations

FROM_AN_INDEX = "takes packages from an index; `make release-check` installs"
GOES_ON = "goes on until it is stopped"
NEEDS_SYSTEMD = "needs systemd"
SEVERAL_MACHINES = "needs several machines: test_cluster.py runs it"
TWO_MACHINES = "needs two machines: test_one_node.py runs it"
NEEDS_RABBITMQ = "needs RabbitMQ: test_moving_from_rabbitmq.py runs it"

# By page: how a command, or a line of a snippet in another language, begins. That command, or that snippet, is
# not run. An entry of which the page has nothing fails a test; the list only shrinks.
NOT_RUN: dict[str, dict[str, str]] = {
    "docs/getting-started.md": {
        "make serve": "installs, and goes on: the broker is the one that it starts"
    },
    "docs/management/monitoring.md": {
        "ROUTELOG_LOG_FORMAT=json routelog serve": GOES_ON,
        "pip install": FROM_AN_INDEX,
        "routelog serve --set otel": GOES_ON,
    },
    "docs/messaging/patterns.md": dict.fromkeys(
        ["pip", "npm", "go mod", "mvn", "jshell"], ".ci/client-libraries brings them"
    ),
    "docs/migrating-from-rabbitmq.md": {
        "import os": NEEDS_RABBITMQ,
        "rabbitmqctl": NEEDS_RABBITMQ,
        "routelog definitions import": NEEDS_RABBITMQ,
        "rabbitmq-plugins": NEEDS_RABBITMQ,
        "for queue in orders": NEEDS_RABBITMQ,
    },
    "docs/operating/backup.md": {"routelog serve": GOES_ON},
    "docs/operating/cluster.md": {
        "apt-get": SEVERAL_MACHINES,
        "routelog": SEVERAL_MACHINES,
        "set -a": SEVERAL_MACHINES,
        "systemctl": SEVERAL_MACHINES,
        "/opt/routelog/bin/pip": FROM_AN_INDEX,
        "until routelog": SEVERAL_MACHINES,
    },
    "docs/operating/configuration.md": {"routelog serve": f"{GOES_ON}: the broker is there"},
    "docs/operating/operating.md": {
        "python3 -m venv": FROM_AN_INDEX,
        "/opt/routelog/bin/pip": FROM_AN_INDEX,
        "systemctl daemon-reload": NEEDS_SYSTEMD,
    },
    "docs/operating/processes.md": {
        "routelog serve --processes": f"{GOES_ON}: the broker is there"
    },
    "docs/operating/remote-storage.md": {
        "spark.read": "needs a bucket",
    },
    "docs/operating/standby.md": {
        "routelog": TWO_MACHINES,
        "kill PID": TWO_MACHINES,
    },
    "docs/sources.md": {"make": "CONTRIBUTING.md: it is how these tests are run"},
    "docs/spark/lake.md": {
        "routelog export run /lake/http --url http://guest:guest@127.0.0.1:15672 --queue audit --f": GOES_ON
    },
    "docs/releases.md": {"make wheel": FROM_AN_INDEX, "pip install": FROM_AN_INDEX},
    "docs/security/tls.md": {
        "context =": "needs certificates",
        "curl": "needs certificates",
        "routelog list": "needs certificates",
    },
}

# By page: the page whose snippets its reader has run before.
READ_BEFORE = {"docs/spark/lake.md": "README.md", "docs/spark/spark.md": "README.md"}

# By page: commands for what its reader has, such as the queue that the page is about.
READERS_HAVE: dict[str, str] = {
    "docs/operating/remote-storage.md": """
        export ROUTELOG_REMOTE_STORAGE=file:///srv/archive
        systemctl restart routelog
    """,
    "docs/troubleshooting.md": """
        routelog queue declare orders
        routelog exchange declare shop --type topic
        routelog queue bind orders shop --key 'order.*'
        routelog queue publish orders x
    """,
    "docs/operating/operating.md": """
        routelog queue declare orders
        routelog queue publish orders x
    """,
    "docs/management/messages.md": """
        routelog queue declare orders
        routelog queue declare orders.failed
        routelog queue declare parked
    """,
}
