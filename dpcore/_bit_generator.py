"""The cryptographic stream as a NumPy BitGenerator."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy.random import BitGenerator
from numpy.random.bit_generator import ISeedSequence

from dpcore import _core
from dpcore._validation import integer


class _NoSeed(ISeedSequence):
    """Stands where NumPy keeps the seed of a generator."""

    def generate_state(self, n_words: int, dtype: Any = None) -> NoReturn:
        """Refuse."""
        raise TypeError("a SecureBitGenerator has no seed: its key comes from the operating system")


class SecureBitGenerator(BitGenerator):
    """The operating system's randomness through a cryptographic stream, for ``numpy.random.Generator``.

    Every thread draws from a ChaCha20 stream of its own, keyed by the operating system, so generators made from
    it may be shared by threads and are safe across ``fork``. There is no seed and no state to read, set, copy or
    pickle.

    Raises
    ------
    dpcore.samplers.RandomnessError
        If the operating system gives no randomness. Should it stop later, in the middle of a draw by NumPy, the
        process is ended: NumPy's loops cannot raise, and there is no other source to fall back to.

    Notes
    -----
    The bits are cryptographic; NumPy's distributions on top of them are ordinary floating-point arithmetic, from
    whose low bits an attacker may learn the value protected. To release data use ``dpcore.mechanisms``; this class
    is for sampling, shuffling and simulation with unpredictable numbers.

    Examples
    --------
    >>> import dpcore
    >>> import numpy as np
    >>> rng = np.random.Generator(dpcore.SecureBitGenerator())
    >>> sorted(rng.permutation(4).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self) -> None:
        super().__init__(_NoSeed())  # type: ignore[arg-type]
        _core.install_secure_stream(self.capsule)

    @property
    def seed_seq(self) -> NoReturn:
        """Refused: there is no seed."""
        raise TypeError("a SecureBitGenerator has no seed")

    @property
    def state(self) -> NoReturn:
        """Refused: the state is never shown."""
        raise TypeError("the state of a SecureBitGenerator cannot be read")

    @state.setter
    def state(self, value: object) -> NoReturn:
        raise TypeError("the state of a SecureBitGenerator cannot be set")

    def spawn(self, n_children: int) -> list[SecureBitGenerator]:
        """`n_children` further generators; all are independent anyway."""
        return [SecureBitGenerator() for _ in range(integer("n_children", n_children))]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SecureBitGenerator cannot be pickled or copied: make a new one")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __getstate__(self) -> NoReturn:
        self.__reduce__()

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()

    def __repr__(self) -> str:
        return "SecureBitGenerator()"
