"""What can go wrong with a ledger. The classes belong to `dpcore.ledger`, and say so in tracebacks."""

from __future__ import annotations


class LedgerError(Exception):
    """Something is wrong with a ledger; nothing was charged."""

    __module__ = "dpcore.ledger"


class CorruptLedgerError(LedgerError):
    """The file is not a ledger, or a line of it is damaged."""

    __module__ = "dpcore.ledger"


class LedgerBusyError(LedgerError):
    """Another process holds the ledger."""

    __module__ = "dpcore.ledger"


class OverspentError(LedgerError):
    """The charge would exceed the budget. It was refused."""

    __module__ = "dpcore.ledger"
