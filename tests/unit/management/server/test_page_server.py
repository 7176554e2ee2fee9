"""The web page over HTTP: signing in, what every page has, and what is refused."""

import pytest
from aiohttp import web
from support.html_document import Element
from unit.management.managed_node import ManagedNode
from unit.management.page_browser import Browser, browsing

from routelog.management.pages.visit import Visit
from routelog.management.server import page_server
from routelog.management.server.page_server import PAGE_HEADERS
from routelog.vhosts import LoopbackRule

EVIL = {"Origin": "http://evil.example"}


@pytest.fixture
async def browser(node: ManagedNode):
    async with browsing(node) as browser:
        yield browser


def is_sign_in(page: Element) -> bool:
    return bool(page.all("form", action="/sign-in"))


async def test_who_has_not_signed_in_gets_the_form_and_then_the_page(browser: Browser) -> None:
    answer = await browser.get("/?a=1")
    assert (answer.status, is_sign_in(answer.page)) == (401, True)
    assert answer.page.one("input", name="to")["value"] == "/?a=1"
    assert "WWW-Authenticate" not in answer.headers  # browsers would ask by themselves
    assert answer.headers["HX-Refresh"] == "true"
    await browser.node.user("ann", "management")
    answer = await browser.ask(
        "POST",
        "/sign-in",
        data={"user": "ann", "password": "secret", "to": "/?a=1"},
        follow=False,
    )
    assert (answer.status, answer.headers["Location"]) == (303, "/?a=1")
    port = browser.origin.rpartition(":")[2]
    cookie, *rules = answer.headers["Set-Cookie"].split("; ")
    assert cookie.startswith(f"routelog-{port}=")
    assert sorted(rules) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Strict"]
    assert "All is well" in (await browser.page("/")).text


async def test_over_https_the_cookie_is_for_https_alone(browser: Browser) -> None:
    await browser.node.user("ann", "management")
    behind_a_proxy = {"Host": "broker.example", "Origin": "https://broker.example"}
    data = {"user": "ann", "password": "secret"}
    answer = await browser.ask("POST", "/sign-in", data=data, headers=behind_a_proxy, follow=False)
    assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("ann", "wrong", "Login failed."),
        ("nobody", "secret", "Login failed."),
        ("untagged", "secret", "This user has no tag that opens the pages."),
    ],
)
async def test_a_refused_sign_in_says_why_and_is_in_the_log(
    browser: Browser, user: str, password: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.node.user("ann", "management")
    await browser.node.user("untagged")
    noted: list[tuple[str, object]] = []
    events = browser.node.node.vhosts.events
    monkeypatch.setattr(events, "note", lambda event, **said: noted.append((event, said["path"])))
    answer = await browser.sign_in(user, password)
    assert (answer.status, answer.page.one("p", role="alert").text) == (401, reason)
    assert "Set-Cookie" not in answer.headers
    assert noted == [("http.refused", "/sign-in")]


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil", "/\t/evil", ""]
)
async def test_nobody_is_sent_elsewhere_after_the_sign_in(browser: Browser, to: str) -> None:
    await browser.node.user("ann", "management")
    data = {"user": "ann", "password": "secret", "to": to}
    answer = await browser.ask("POST", "/sign-in", data=data, follow=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_a_page_of_another_site_signs_nobody_in_and_changes_nothing(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    token = (await browser.get("/")).form_token
    for path in ("/sign-in", "/sign-out", "/do/declare-queue"):
        for headers in (EVIL, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            data = {"form_token": token, "user": "ann", "password": "secret"}
            answer = await browser.ask("POST", path, data=data, headers=headers)
            assert answer.status == 403, (path, headers)
    assert (await browser.get("/")).status == 200


@pytest.mark.parametrize("token", [None, "", "wrong", "wröng"])
async def test_a_form_without_the_token_of_its_session_is_refused(
    browser: Browser, token: str | None
) -> None:
    await browser.sign_in_as("ann", "administrator")
    data = {"vhost": "/", "name": "q"} | ({} if token is None else {"form_token": token})
    for path in ("/do/declare-queue", "/sign-out"):
        answer = await browser.ask("POST", path, data=data)
        assert answer.status == 403
        assert "not one of this session" in answer.page.one("p", role="alert").text
    assert not browser.node.vhost.queues
    assert (await browser.get("/")).status == 200  # still signed in


async def test_who_signs_out_has_to_sign_in_again(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    answer = await browser.send("/", "/sign-out")
    assert (answer.status, is_sign_in(answer.page)) == (401, True)


async def test_a_session_ends_when_the_user_may_not_come_from_there_any_more(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in_as("guest", "administrator")
    assert (await browser.get("/")).status == 200
    monkeypatch.setattr(LoopbackRule, "allows", lambda *_: False)
    assert (await browser.get("/")).status == 401


async def test_every_page_forbids_scripts_in_itself_frames_and_guesses(browser: Browser) -> None:
    answers = [await browser.get("/")]
    await browser.sign_in_as("ann", "administrator")
    answers += [await browser.get("/"), await browser.ask("POST", "/do/nothing", data={})]
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert {name: answer.headers[name] for name in PAGE_HEADERS} == PAGE_HEADERS
        for each in answer.page.walk():
            assert each.tag != "style"
            assert not [
                name for name in each.attributes if name.startswith("on") or name == "style"
            ]
            if each.tag == "script":
                assert each.get("src")
                assert each.raw_text == ""
    rules = PAGE_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in rules
    assert "frame-ancestors 'none'" in rules


async def test_static_files_are_kept_and_change_their_address(browser: Browser) -> None:
    page = (await browser.get("/")).page
    scripts = [(each["src"], "text/javascript") for each in page.all("script")]
    styles = [(each["href"], "text/css") for each in page.all("link", rel="stylesheet")]
    assert len(scripts) + len(styles) >= 5
    for address, media_type in scripts + styles:
        answer = await browser.get(address)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith(media_type)
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for other in ("/static/style.css", "/static/..%2Fsessions.py", "/static/"):
        assert (await browser.get(other)).status == 404


async def test_what_the_caller_may_not_is_403_and_a_fault_is_500(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await browser.sign_in_as("ann", "management")
    token = (await browser.get("/")).form_token
    data = {"form_token": token, "vhost": "none", "name": "q"}
    answer = await browser.ask("POST", "/do/declare-queue", data=data)
    assert answer.status == 404
    await browser.node.users.clear_permissions("ann", "/")
    answer = await browser.ask("POST", "/do/declare-queue", data=data | {"vhost": "/"})
    assert answer.status == 403
    assert answer.page.one("p", role="alert").text == "User not authorised to access virtual host"

    async def fail(*_: object) -> object:
        raise RuntimeError("made to fail")

    monkeypatch.setattr(Visit, "get", fail)
    answer = await browser.get("/")
    assert answer.status == 500
    assert "made to fail" not in answer.text
    assert "made to fail" in caplog.text


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"a=" + b"x" * page_server.FORM_BYTES_MAX, 413), (b"a&" * 2_000, 400), (b"a=%ff", 400)],
)
async def test_a_form_that_cannot_be_is_refused(browser: Browser, body: bytes, status: int) -> None:
    await browser.sign_in_as("ann", "administrator")
    for path in ("/do/publish", "/sign-in"):
        answer = await browser.ask("POST", path, data=body)
        assert answer.status == status


MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}
FIELD = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'


async def test_only_who_has_signed_in_sends_a_file(browser: Browser) -> None:
    await browser.node.user("ann", "management")
    body = FIELD % (b"user", b"ann") + FIELD % (b"password", b"secret") + b"--b--\r\n"
    answer = await browser.ask("POST", "/sign-in", data=body, headers=MULTIPART)
    assert (answer.status, "Set-Cookie" in answer.headers) == (401, False)


@pytest.mark.parametrize(
    "body",
    [
        b"--b\r\n\r\n\r\n" * 700,
        FIELD % (b"a", b"") * 700,
        b"--b\r\n" + b"x" * 10_000,
        b"--b\r\nno colon\r\n\r\n" * 700,
    ],
)
async def test_a_form_with_a_file_that_cannot_be_is_refused(browser: Browser, body: bytes) -> None:
    await browser.sign_in_as("ann", "administrator")
    for path in ("/do/publish", "/definitions/import", "/sign-out"):
        data = body + b"\r\n--b--\r\n"
        answer = await browser.ask("POST", path, data=data, headers=MULTIPART)
        assert answer.status == 400, answer.text


async def test_a_form_that_comes_late_does_not_keep_its_session(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in_as("eve", "administrator")
    read = page_server._form

    async def come_late(request: web.Request) -> dict[str, list[str]]:
        await browser.node.users.delete_user("eve")
        return await read(request)

    monkeypatch.setattr(page_server, "_form", come_late)
    said = {"user": "evil", "password": "x", "tags": "administrator"}
    answer = await browser.send("/users", "/do/put-user", **said)
    assert (answer.status, is_sign_in(answer.page)) == (401, True)
    assert browser.node.users.find("evil") is None


async def test_the_api_goes_on_to_want_a_password(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    answer = await browser.get("/api/overview")
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")


async def test_templates_that_could_not_be_read_are_read_again(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(page_server, "_loaded", fail)
        assert (await browser.get("/")).status == 500
    assert is_sign_in((await browser.get("/")).page)


async def test_a_path_without_a_page_has_one_that_says_so(browser: Browser) -> None:
    await browser.sign_in_as("ann", "management")
    for path in ("/sheep", "/queues/a/b/c/d/e", "/%3Cb%3E"):
        answer = await browser.get(path)
        assert answer.status == 404
        assert answer.page.one("h1").text == "There is no such page."
    for path in ("/api/sheep", "/static/sheep", "/cli/sheep"):
        answer = await browser.get(path)
        assert answer.status == 404
        assert answer.headers["Content-Type"].startswith("application/json")
