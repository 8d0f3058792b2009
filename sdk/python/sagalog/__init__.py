"""Agents and producers of Sagalog in Python: see README.md beside this package."""

from sagalog.agent import Agent
from sagalog.attempt import Attempt, Json
from sagalog.errors import AgentError, Effect, Failure, NotAcknowledged, NotSent, Refused, Rejected, Retryable
from sagalog.producer import Producer, Receipt

__all__ = ["Agent", "AgentError", "Attempt", "Effect", "Failure", "Json", "NotAcknowledged", "NotSent", "Producer", "Receipt", "Refused", "Rejected", "Retryable"]
