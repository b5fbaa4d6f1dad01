"""The client against a real HTTP server on 127.0.0.1, through the ``openai`` library."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading

import pytest

from maghub.errors import MaghubError
from maghub.llm import BadAnswer, BudgetReached, Limits, Message, Outcome, Request, json_object
from maghub.llm.client import REFUSED
from maghub.llm.messages import Answer
from tests.helpers.graphs import png
from tests.helpers.llm_server import KEY, OK, Fault, LLMServer
from tests.llm.conftest import MakeClient


def ask(text: str, **options: object) -> Request:
    return Request((Message("user", text),), **options)  # type: ignore[arg-type]


def asks(count: int) -> list[Request]:
    return [ask(f"say {i}") for i in range(count)]


def one_line(error: pytest.ExceptionInfo[MaghubError], *words: str) -> None:
    line = error.value.line()
    assert "\n" not in line
    assert KEY not in line
    for word in words:
        assert word in line


# -- concurrency, cache --------------------------------------------------------------------------


def test_answers_come_in_order_and_many_at_a_time(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.delay = 0.05
    client = make_client(concurrency=5)
    texts = [answer.text for answer in client.map(asks(40))]
    assert texts == [f"say {i}" for i in range(40)]
    assert server.most_at_once == 5  # the pool is used, and bounded
    spent = sum(entry.ended - entry.began for entry in server.log)
    span = max(e.ended for e in server.log) - min(e.began for e in server.log)
    assert spent > 1.5 * span  # they overlap
    assert client.models == {"test-model-2026"}


def test_requests_are_taken_as_they_are_needed(server: LLMServer, make_client: MakeClient) -> None:
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield ask(f"say {taken}")

    answers = make_client(concurrency=2).map(endless())  # type: ignore[arg-type]
    assert [next(answers).text for _ in range(3)] == ["say 1", "say 2", "say 3"]
    assert taken <= 3 + 4 * 2  # what waits is bounded, whatever the number of requests
    answers.close()  # type: ignore[attr-defined]


def test_a_cache_hit_costs_no_request(server: LLMServer, make_client: MakeClient) -> None:
    first = [answer.text for answer in make_client().map(asks(6))]
    assert len(server.log) == 6
    client = make_client()  # another run, the same file
    assert [answer.text for answer in client.map(asks(7))] == [*first, "say 6"]
    assert len(server.log) == 7
    assert client.counts == {"asked": 7, "cached": 6, "sent": 1}


def test_equal_requests_in_one_run_are_paid_once(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.delay = 0.05  # the first is still under way when the others come
    answers = list(make_client().map([ask("same")] * 5 + [ask("other")] + [ask("same")] * 3))
    assert [answer.text for answer in answers] == ["same"] * 5 + ["other"] + ["same"] * 3
    assert len(server.log) == 2


def test_every_part_of_a_request_makes_another_key(
    server: LLMServer, make_client: MakeClient
) -> None:
    requests = [
        ask("a"),
        ask("a", seed=1),
        ask("a", temperature=0.5),
        ask("a", max_tokens=7),
        ask("a", json_object=True),
        Request((Message("system", "a"),)),
        Request((Message("user", "a", (png(1),)),)),
        Request((Message("user", "a", (png(2),)),)),
        Request((Message("user", "a", (png(1), png(2))),)),
    ]
    list(make_client().map(requests))
    assert len(server.log) == len(requests)
    list(make_client(parameters={"top_p": 0.5}).map(requests[:1]))
    assert len(server.log) == len(requests) + 1
    list(make_client().map(requests))
    assert len(server.log) == len(requests) + 1


def test_what_is_sent(server: LLMServer, make_client: MakeClient) -> None:
    message = Message("user", "what is this?", (png(3),))
    list(make_client().map([Request((Message("system", "be brief"), message), 99, seed=5)]))
    (body,) = [entry.body for entry in server.log]
    assert body["model"] == "m"
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 5, 99)
    assert body["messages"][0] == {"role": "system", "content": "be brief"}
    text, image = body["messages"][1]["content"]
    assert text == {"type": "text", "text": "what is this?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


def test_parameters_of_the_user_win_and_none_leaves_one_out(
    server: LLMServer, make_client: MakeClient
) -> None:
    own = {"temperature": None, "max_tokens": None, "max_completion_tokens": 50, "top_k": 1}
    list(make_client(parameters=own).map([ask("a")]))
    (body,) = [entry.body for entry in server.log]
    assert "temperature" not in body
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["top_k"]) == (50, 1)


# What JSON allows and no completion is: another kind of value at each step of the way to the text.
NO_COMPLETIONS = [
    *({"choices": one} for one in ([], 3, True, {"a": 1}, "x", None)),
    *({"choices": [one]} for one in (3, None, "x", [], {})),
    *({"choices": [{"message": one}]} for one in (3, "x", [], True)),
    *({"choices": [{"message": {"content": one}}]} for one in (3, 1.5, ["x"], {"a": 1}, True)),
]


# -- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429),
        Fault(500),
        Fault(502),
        Fault(503),
        Fault(408),
        Fault(cut=True),
        Fault(body=b"<html>gateway</html>"),
        *(Fault(body=json.dumps(one).encode()) for one in NO_COMPLETIONS),
    ],
    ids=["429", "500", "502", "503", "408", "cut", "html", *map(str, NO_COMPLETIONS)],
)
def test_what_may_pass_is_tried_again(
    server: LLMServer, make_client: MakeClient, fault: Fault
) -> None:
    server.faults = [fault, fault]
    client = make_client(concurrency=1)
    assert [answer.text for answer in client.map(asks(2))] == ["say 0", "say 1"]
    assert len(server.log) == 4
    assert client.counts["retried"] == 2


def test_a_timeout_is_tried_again(server: LLMServer, make_client: MakeClient) -> None:
    server.faults = [Fault(delay=1.0)]
    client = make_client(timeout=0.3)
    assert [answer.text for answer in client.map([ask("a")])] == ["a"]
    assert client.counts["retried"] == 1


def test_retry_after_is_obeyed(server: LLMServer, make_client: MakeClient) -> None:
    server.faults = [Fault(429, {"retry-after": "0.4"})]
    assert [answer.text for answer in make_client().map([ask("a")])] == ["a"]
    first, second = server.log
    assert 0.35 < second.began - first.ended < 2.0  # the policy alone would have waited 0.01 s


def test_a_server_that_stays_broken_stops_the_run(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.faults = [OK] + [Fault(500)] * 20
    client = make_client(concurrency=1)
    answers = client.map(asks(3))
    assert next(answers).text == "say 0"
    with pytest.raises(MaghubError) as error:
        list(answers)
    one_line(error, "no answer after 4 tries", "HTTP 500", "answers so far are kept")
    server.faults = []
    assert [a.text for a in make_client().map(asks(3))] == ["say 0", "say 1", "say 2"]
    assert sum(entry.last == "say 0" for entry in server.log) == 1


def test_nobody_there(make_client: MakeClient) -> None:
    client = make_client(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(MaghubError) as error:
        list(client.map([ask("a")]))
    one_line(error, "127.0.0.1", "cannot be reached", "Check the server")


def test_wrong_key(
    server: LLMServer, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-wrongKeyOfTheTests-9876543210")
    with pytest.raises(MaghubError) as error:
        list(make_client(key_variable="MY_KEY").map([ask("a")]))
    one_line(error, "the key is refused", "MY_KEY")
    assert "sk-wrong" not in error.value.line()


@pytest.mark.parametrize("value", [None, "", "  "])
def test_no_key(
    monkeypatch: pytest.MonkeyPatch, value: str | None, make_client: MakeClient
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    if value is not None:
        monkeypatch.setenv("OPENAI_API_KEY", value)
    with pytest.raises(MaghubError) as error:
        make_client()
    one_line(error, "OPENAI_API_KEY is not set", "Export OPENAI_API_KEY=")


@pytest.mark.parametrize("value", ["sk-a\nb", "sk-ä", "two words"])
def test_a_key_that_is_none(
    monkeypatch: pytest.MonkeyPatch, value: str, make_client: MakeClient
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    with pytest.raises(MaghubError) as error:
        make_client()
    one_line(error, "cannot be a key")
    assert value.split()[0] not in error.value.line().replace("OPENAI_API_KEY", "")


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_no_library_logs_the_key(
    server: LLMServer, make_client: MakeClient, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """With every logger of the process at its most talkative, and a server that repeats the key."""
    caplog.set_level(logging.DEBUG)
    server.faults = [Fault(status, {"x-seen": f"Bearer {KEY}"})] * 4
    with contextlib.suppress(MaghubError):
        list(make_client(concurrency=1).map(asks(2)))
    assert len(caplog.records) > 4
    shown = [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert not [line for line in shown if KEY in line]


def test_without_the_library(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MaghubError) as error:
        make_client()
    one_line(error, "pip install 'maghub[llm]'")


def test_unknown_model(server: LLMServer, make_client: MakeClient) -> None:
    server.faults = [Fault(404)]
    with pytest.raises(MaghubError) as error:
        list(make_client().map([ask("a")]))
    one_line(error, "no model 'm'", "--base-url")


def test_a_quota_that_is_used_up_is_not_waited_for(
    server: LLMServer, make_client: MakeClient
) -> None:
    body = json.dumps({"error": {"message": "pay first", "code": "insufficient_quota"}}).encode()
    server.faults = [Fault(429, body=body)]
    with pytest.raises(MaghubError) as error:
        list(make_client().map([ask("a")]))
    one_line(error, "quota", "pay first")
    assert len(server.log) == 1


def test_one_refused_request_is_dropped_but_not_the_run(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.faults = [OK, Fault(400), OK]
    client = make_client(concurrency=1)
    answers = list(client.map([*asks(3), ask("say 1")]))
    assert [answer.finish for answer in answers] == ["stop", REFUSED, "stop", REFUSED]
    assert KEY not in answers[1].text  # the server repeated it
    outcomes = make_client(concurrency=1).ask(3, lambda i: asks(3)[i], lambda i, a: a.text)
    assert [one.value for one in outcomes] == ["say 0", "say 1", "say 2"]  # asked anew


def test_a_server_that_refuses_everything_stops_the_run(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.faults = [Fault(400)] * 10
    with pytest.raises(MaghubError) as error:
        list(make_client(concurrency=1).map(asks(10)))
    one_line(error, "refuses every request", "--param")
    assert len(server.log) == 3


# -- budget --------------------------------------------------------------------------------------


def test_the_budget_of_requests_is_hard_and_the_run_goes_on_from_it(
    server: LLMServer, make_client: MakeClient
) -> None:
    client = make_client(Limits(requests=7), concurrency=3)
    with pytest.raises(BudgetReached) as error:
        list(client.map(asks(20)))
    one_line(error, "budget of 7 requests is spent", "--max-requests")
    assert len(server.log) == 7
    assert len(client.cache) == 7
    rest = make_client(Limits(requests=13), concurrency=3)
    assert [a.text for a in rest.map(asks(20))] == [f"say {i}" for i in range(20)]
    assert len(server.log) == 20


def test_retries_come_out_of_the_budget(server: LLMServer, make_client: MakeClient) -> None:
    server.faults = [Fault(500)] * 3
    with pytest.raises(BudgetReached):
        list(make_client(Limits(requests=3), concurrency=1).map([ask("a")]))
    assert len(server.log) == 3


def test_budgets_of_tokens_and_cost(server: LLMServer, make_client: MakeClient) -> None:
    client = make_client(Limits(tokens=10), concurrency=1)  # "say i" reads 2 and writes 2
    with pytest.raises(BudgetReached) as error:
        list(client.map(asks(20)))
    one_line(error, "budget of 10 tokens", "--max-tokens", "12 tokens")
    assert len(server.log) == 3
    assert (client.budget.prompt_tokens, client.budget.completion_tokens) == (6, 6)
    limits = Limits(cost=0.5, input_price=50_000, output_price=100_000)  # 0.3 for each
    priced = make_client(limits, concurrency=1, cache=None, parameters={"top_p": 1})
    with pytest.raises(BudgetReached) as error:
        list(priced.map(asks(20)))
    one_line(error, "budget of 0.5 cost", "--max-cost", "cost 0.6")
    assert priced.budget.requests == 2


def test_a_limit_of_cost_needs_prices() -> None:
    with pytest.raises(MaghubError) as error:
        Limits(cost=1.0)
    one_line(error, "--input-price")


@pytest.mark.parametrize(
    "usage", [3, "x", ["x"], {"prompt_tokens": "many"}, {"prompt_tokens": [1]}]
)
def test_a_paid_answer_is_kept_whatever_else_the_server_says(
    server: LLMServer, make_client: MakeClient, usage: object
) -> None:
    choice = {"message": {"content": "yes"}, "finish_reason": {"odd": 1}}
    body = json.dumps({"choices": [choice], "usage": usage, "model": 7}).encode()
    server.faults = [Fault(body=body)]
    client = make_client()
    assert [answer.text for answer in client.map([ask("a")])] == ["yes"]
    assert (len(server.log), client.budget.prompt_tokens) == (1, 0)


def test_half_an_emoji_is_no_reason_to_stop(server: LLMServer, make_client: MakeClient) -> None:
    server.reply = lambda body: "a \ud83d b"
    assert [answer.text for answer in make_client().map([ask("a")])] == ["a \ufffd b"]
    assert [answer.text for answer in make_client().map([ask("a")])] == ["a \ufffd b"]
    assert len(server.log) == 1


# -- answers that cannot be read -----------------------------------------------------------------


def value_of(item: int, answer: Answer) -> int:
    found = json_object(answer, "JSON, please").get("value")
    if not isinstance(found, int):
        raise BadAnswer("no value", "a number, please")
    return found


def test_malformed_answers_are_asked_again_then_dropped_and_counted(
    server: LLMServer, make_client: MakeClient
) -> None:
    seen: dict[str, int] = {}

    def reply(body: dict[str, object]) -> str:
        messages: list[dict[str, str]] = body["messages"]  # type: ignore[assignment]
        which = messages[0]["content"]
        turn = seen[which] = seen.get(which, 0) + 1
        if which == "item 0":
            return '{"value": 0}'
        if which == "item 1":  # better at the second try
            return "sorry" if turn == 1 else 'Sure!\n```json\n{"value": 1}\n```'
        if which == "item 2":  # never
            return '{"value": '
        return '{"value": "three"}' if turn < 3 else '<think>{"value": 9}</think>{"value": 3}'

    server.reply = reply  # type: ignore[assignment]
    client = make_client(concurrency=2)
    outcomes = client.ask(4, lambda i: ask(f"item {i}"), value_of, again=2)
    assert [one.value for one in outcomes] == [0, 1, None, 3]
    assert outcomes[2] == Outcome(None, "malformed JSON", '{"value": ')
    assert seen == {"item 0": 1, "item 1": 2, "item 2": 3, "item 3": 3}
    assert client.counts["asked again"] == 3 + 2
    assert client.counts["dropped"] == 1
    again = [e.body["messages"] for e in server.log if e.body["messages"][0]["content"] == "item 1"]
    said = [[m["content"] for m in messages] for messages in again]
    assert said[-1] == ["item 1", "sorry", "JSON, please"]
    # All of it, the bad answers too, is in the cache: the same run again costs nothing.
    asked = len(server.log)
    assert make_client().ask(4, lambda i: ask(f"item {i}"), value_of, again=2) == outcomes
    assert len(server.log) == asked


@pytest.mark.parametrize(
    ("text", "finish", "wanted"),
    [
        ('{"a": 1}', "stop", {"a": 1}),
        ('  noise {not json} {"a": {"b": [1]}} tail', "stop", {"a": {"b": [1]}}),
        ('```json\n{"a": "}"}\n```', "stop", {"a": "}"}),
        ('<think>{"a": 2}', "stop", "malformed JSON"),
        ("", "stop", "malformed JSON"),
        ("[1, 2]", "stop", "malformed JSON"),
        ('{"a": "cut', "length", "answer cut off"),
        ("{" * 100_000, "stop", "malformed JSON"),
        ('{"a": "\\ud83d"}', "stop", "malformed JSON"),  # half an emoji: no file can hold it
        ('{"a": "\\ud83d\\ude00"}', "stop", {"a": "\U0001f600"}),
    ],
)
def test_reading_json(text: str, finish: str, wanted: object) -> None:
    answer = Answer(text, finish)
    if isinstance(wanted, dict):
        assert json_object(answer, "again") == wanted
    else:
        with pytest.raises(BadAnswer) as error:
            json_object(answer, "again")
        assert (error.value.reason, error.value.reply) == (wanted, "again")


def test_what_is_under_way_when_a_run_stops_is_kept(
    server: LLMServer, make_client: MakeClient
) -> None:
    server.delay = 0.1
    client = make_client(Limits(requests=4), concurrency=4)
    with pytest.raises(BudgetReached):
        list(client.map(asks(9)))
    assert len(server.answered()) == len(client.cache) == 4
    assert not [t for t in threading.enumerate() if t.name.startswith("llm")]
