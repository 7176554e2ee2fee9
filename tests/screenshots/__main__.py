"""`python -m screenshots`: pictures of every page of the web page, of a broker with much in it.

`--page queues --size 1280 --scheme dark` takes one of them, half a minute from start to picture.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from screenshots.world import IOT, LONG, SHOP, STAGING, World
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

CHROMIUM = "/usr/bin/chromium"  # Debian's: see .ci/system-packages
HEIGHTS = {1280: 800, 1600: 1000, 390: 844}
SCHEMES = ("light", "dark")
COLOURS = 256  # of a picture: a page has few, and a third of the bytes are left
LOCALE = {"locale": "en-GB", "timezone_id": "Europe/Berlin"}


def part(text: str) -> str:
    """A name as a part of a path."""
    return quote(text, safe="")


# The pages by the names of their pictures. A connection's and a channel's are found at run time.
PATHS = {
    "overview": "/",
    "queues": "/queues",
    "queue": f"/queues/{part(SHOP)}/shop.orders",
    "queue-long-name": f"/queues/{part(IOT)}/{part(LONG)}",
    "stream": f"/queues/{part(SHOP)}/clickstream",
    "messages": f"/queues/{part(SHOP)}/shop.orders/messages",
    "streams": "/readers",
    "queue-settings": f"/queues/{part(SHOP)}/shop.orders/settings",
    "queue-consumers": f"/queues/{part(SHOP)}/clickstream/consumers",
    "queue-danger": f"/queues/{part(SHOP)}/shop.orders/danger",
    "group": f"/readers/{part(SHOP)}/clickstream/billing",
    "exchanges": "/exchanges",
    "exchange": f"/exchanges/{part(SHOP)}/orders",
    "exchange-tried": f"/exchanges/{part(SHOP)}/orders?routing_key=order.paid&headers=",
    "delayed": f"/exchanges/{part(SHOP)}/later/delayed",
    "connections": "/connections",
    "connection": "/connections/{connection}",
    "channels": "/channels",
    "channel": "/channels/{channel}",
    "users": "/users",
    "user": "/users/ann",
    "permissions": "/permissions",
    "vhosts": "/vhosts",
    "vhost": f"/vhosts/{part(STAGING)}",
    "policies": "/policies",
    "nodes": "/nodes",
    "cluster": "/cluster",
    "log": "/log",
    "log-of-operators": "/log?via=HTTP",
    "consumers": "/consumers",
    "operator-policies": "/operator-policies",
    "limits": "/limits",
    "search": "/search?for=orders",
    "definitions": "/definitions",
    "http-api": "/api-docs",
    "no-such-queue": f"/queues/{part(SHOP)}/nothing",
}


def main() -> None:
    """Take the pictures that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="screenshots", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("build/screenshots"), help="the folder")
    parser.add_argument("--page", action="append", choices=PATHS, help="one alone; also repeated")
    parser.add_argument("--path", action="append", default=[], help="any path, such as /queues?a=b")
    parser.add_argument(
        "--size", action="append", type=int, choices=HEIGHTS, help="width in pixels"
    )
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--seconds", type=float, default=15, help="of traffic before the first one")
    parser.add_argument(
        "--whole", action="store_true", help="all of a long page, not its first screen"
    )
    parser.add_argument("--serve", action="store_true", help="then stay, until Enter is pressed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"ROUTELOG_MANAGEMENT_BANNER": "production"}
        broker = BrokerProcess(Path(folder) / "data", environment).start()
        try:
            world = World(broker)
            world.build()
            door = ManagementDoor(broker)
            origin = f"http://{door.address.netloc}"
            print(f"{origin} for user ann, password ann", flush=True)
            time.sleep(asked.seconds)
            take(asked, origin, addresses(asked, door))
            if asked.serve:
                input("Press Enter to stop. ")
            world.stop()
        finally:
            broker.stop()


def addresses(asked: argparse.Namespace, door: ManagementDoor) -> dict[str, str]:
    """The paths of the wanted pages, by the names of their pictures."""
    (channel,) = [
        each for each in door.get("channels") if "order worker 1" in str(named(door, each))
    ]
    connection = channel["connection_details"]["name"]
    wanted = asked.page or ([] if asked.path else PATHS)
    paths = {name: PATHS[name] for name in wanted}
    paths |= {f"path-{at}": path for at, path in enumerate(asked.path)}
    return {
        name: path.replace("{connection}", part(connection)).replace(
            "{channel}", part(channel["name"])
        )
        for name, path in paths.items()
    }


def named(door: ManagementDoor, channel: dict[str, dict[str, str]]) -> object:
    """What the client of a channel calls its connection."""
    connection = door.get("connections", channel["connection_details"]["name"])
    return connection["client_properties"].get("connection_name")


def take(asked: argparse.Namespace, origin: str, paths: dict[str, str]) -> None:
    """Take pictures of pages in all sizes and schemes."""
    asked.to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        for page, suffix in views(asked, browser, origin):
            for name, path in paths.items():
                page.goto(origin + path)
                page.wait_for_timeout(300)  # charts are drawn after the page is there
                file = asked.to / f"{name}-{suffix}.png"
                save(page.screenshot(full_page=asked.whole), file)
                print(file, flush=True)
        browser.close()


def views(asked: argparse.Namespace, browser: Browser, origin: str) -> Iterator[tuple[Page, str]]:
    """A signed-in page for each size and scheme."""
    for width in asked.size or HEIGHTS:
        for scheme in asked.scheme or SCHEMES:
            size = {"width": width, "height": HEIGHTS[width]}
            context = browser.new_context(color_scheme=scheme, viewport=size, **LOCALE)
            page = context.new_page()
            page.goto(origin + "/")
            page.fill("#user", "ann")
            page.fill("#password", "ann")
            page.click("main button")
            yield page, f"{width}-{scheme}"
            context.close()


def save(content: bytes, file: Path) -> None:
    """Write a picture with few colours."""
    picture = Image.open(BytesIO(content)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    main()
