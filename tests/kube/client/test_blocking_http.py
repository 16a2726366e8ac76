"""HTTP over a blocking socket, against answers as servers and what stands before them may send them."""

from __future__ import annotations

import socket
from threading import Thread

import pytest

from pumice.kube.client.blocking_http import Answer, Connection, ProtocolError


def exchange(*answers: bytes, verb: str = "GET") -> tuple[Connection, list[bytes], list[Answer]]:
    """Send a request for each answer over one connection; what the other end has got."""
    near, far = socket.socketpair()
    near.settimeout(20)
    got: list[bytes] = []

    def serve() -> None:
        with far:
            for answer in answers:
                got.append(far.recv(65536))
                far.sendall(answer)

    server = Thread(target=serve)
    server.start()
    connection = Connection(lambda: near, "example:80")
    try:
        found = []
        for _ in answers:
            answer = connection.request(verb, "/a?b=c", None, {"Accept": "x"})
            found.append(answer)
            content = answer.read()
            answer._rest = content  # for the test to look at
        return connection, got, found
    finally:
        connection.close()
        server.join()


def test_answers_with_a_length_and_in_chunks_share_a_connection() -> None:
    _, got, answers = exchange(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello",
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n",
    )
    assert [(each.status, each.reason, each._rest) for each in answers] == [
        (200, "OK", b"hello"),
        (404, "Not Found", b"hello"),
    ]
    assert answers[0].headers["x-y"] == "z"
    assert got[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: example:80\r\n") and got[0].endswith(b"\r\n\r\n")


def test_an_answer_without_a_length_goes_on_to_the_end() -> None:
    assert exchange(b"HTTP/1.0 200 OK\r\n\r\nall\nof it")[2][0]._rest == b"all\nof it"


def test_lines_of_an_answer_as_they_arrive() -> None:
    near, far = socket.socketpair()
    with far:
        far.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        far.sendall(b"4\r\na\nbc\r\n4\r\nd\ne\n\r\n1\r\nf\r\n0\r\n\r\n")
        connection = Connection(lambda: near, "example")
        answer = connection.request("GET", "/", None, {})
        assert [answer.readline() for _ in range(5)] == [b"a\n", b"bcd\n", b"e\n", b"f", b""]
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    ],
)
def test_what_is_not_an_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises((ProtocolError, ConnectionError)):
        exchange(answer)


@pytest.mark.parametrize("target", ["/a\r\nX: y", "/a b\n", "/é"])
def test_nothing_is_smuggled_into_a_request(target: str) -> None:
    with pytest.raises(ProtocolError):
        Connection(lambda: pytest.fail("connected"), "example").request("GET", target, None, {})
