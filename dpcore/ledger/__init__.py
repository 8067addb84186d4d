"""A budget ledger: a file that records what was released and refuses to overspend.

The file is a list of JSON lines, only ever appended to. The first line holds the budget, every other one a
charge; each line carries a checksum that also covers the line before it. A charge takes an exclusive lock, reads
the file, refuses if the budget would be exceeded, appends its line and returns only after the operating system
has confirmed that the line is on the disk. Show a value after its charge has returned, never before.

A crash in the middle of a write leaves a last line without its end. That charge never returned, so its value was
never shown: the piece is ignored, and cut off by the next charge. Every other damage is an error.

Totals are what holds without any assumption about the attacker. With ``composition="sum"`` epsilons and deltas are
added exactly, which stays valid when later questions, and how much to spend on them, depend on earlier answers.
With ``composition="certified"`` the losses are composed by `dpcore.accounting`, which gives smaller totals, but is
only valid when what each charge costs was decided without looking at earlier answers.

The checksums find accidents, not forgery: whoever may write the file can write a new one.
"""

from dpcore.ledger._errors import CorruptLedgerError, LedgerBusyError, LedgerError, OverspentError
from dpcore.ledger._ledger import Ledger, Spending
from dpcore.ledger._lines import Charge

__all__ = [
    "Charge",
    "CorruptLedgerError",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "OverspentError",
    "Spending",
]
