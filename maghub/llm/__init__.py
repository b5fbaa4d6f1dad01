"""One client for language models: OpenAI-compatible servers and models in this process.

Question writers and generators use it. ``open_client("openai:MODEL")`` or
``open_client("local:FOLDER")`` gives a ``Client`` that keeps every answer on disk, retries, stops
at a budget and asks again where an answer cannot be read.
"""

from maghub.llm.answers import json_object, said
from maghub.llm.budget import Budget, BudgetReached, Limits
from maghub.llm.cache import AnswerCache
from maghub.llm.client import REFUSED, BadAnswer, Client, Outcome
from maghub.llm.messages import Answer, Message, Request
from maghub.llm.opening import KINDS, Settings, open_client, short_name
from maghub.llm.retrying import RetryPolicy

__all__ = [
    "KINDS",
    "REFUSED",
    "Answer",
    "AnswerCache",
    "BadAnswer",
    "Budget",
    "BudgetReached",
    "Client",
    "Limits",
    "Message",
    "Outcome",
    "Request",
    "RetryPolicy",
    "Settings",
    "json_object",
    "open_client",
    "said",
    "short_name",
]
