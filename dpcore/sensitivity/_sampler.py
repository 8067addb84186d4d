"""Algorithm 1: the sensitivity sampler."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpcore import _validation as check
from dpcore._progress import Progress, ProgressOption
from dpcore.sensitivity._engine import Work, run
from dpcore.sensitivity._errors import EvaluationError
from dpcore.sensitivity._estimate import SensitivityEstimate
from dpcore.sensitivity._evaluate import Plan
from dpcore.sensitivity._evaluations import Evaluations
from dpcore.sensitivity._norms import NORMS, Norm, digest
from dpcore.sensitivity._operating_point import OperatingPoint, operating_point
from dpcore.sensitivity._records import PlainSource, as_source

# A batch holds at most this many evaluations and, for records of one number, 1 MiB of them, which stays in cache.
# It depends on the number of records alone, because it is part of what the seed means.
_BATCH_EVALUATIONS = 256
_BATCH_RECORDS = 2**17
_SECONDS_BETWEEN_CHECKPOINTS = 10.0


class SensitivitySampler:
    """Estimates how much one record can change a function, by sampling pairs of neighbouring databases.

    Algorithm 1 of Rubinstein and Aldà (2017): draw n + 1 records, evaluate the target on the first n and on
    the same with the last one replaced, measure the distance, repeat, and take an order statistic.

    Parameters
    ----------
    target : callable
        The function to be made private: takes a database (what `sample` returns, cut to `records` records)
        and returns a number or an array of one shape, or, with `grid`, a function. If it has a method
        ``pair(common, a, b)``, that is called instead with the n - 1 shared records and the two that differ,
        and returns both values; use it when the second costs little once the first is known.
        The built-in targets (`Mean`, `Sum`, `Quantile`, `Histogram`, `LinearRegression`, `RidgeRegression`)
        are evaluated in C++.
    sample : callable, array or SciPy distribution
        Where independent records come from: a callable of (count, rng), which takes all its randomness from
        the NumPy generator `rng`; a callable of (count) with randomness of its own; an array, or a pandas data
        frame or series, whose rows are drawn with replacement; or a frozen SciPy distribution. It must not depend
        on the private data.
    records : int >= 1
        n, the number of records of a database, which is public.
    norm : {"l1", "l2", "sup"} or callable
        Norm of the difference of two values; a callable takes the flat difference and returns a number >= 0.
    grid : array, optional
        Where the target returns functions: points at which they are compared.
    vectorised : bool
        The target takes a batch of databases, an array of shape (batch, records, ...), and returns an array
        with one value for each. `sample` is then asked for the records of a whole batch at once.
    bound : float > 0, optional
        A known bound on the sensitivity. Sampling stops as soon as the estimate has reached it; a sampled
        sensitivity above it is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.sensitivity import SensitivitySampler
    >>> def incomes(count, rng):
    ...     return rng.lognormal(mean=10, sigma=1, size=count)
    >>> sampler = SensitivitySampler(np.median, incomes, records=1000)
    >>> estimate = sampler.estimate(gamma=0.01, seed=1)
    >>> estimate.samples, round(estimate.sensitivity)
    (99, 180)
    """

    def __init__(
        self,
        target: Callable[..., Any],
        sample: Any,
        *,
        records: int,
        norm: Norm = "l1",
        grid: Any = None,
        vectorised: bool = False,
        bound: float = math.inf,
    ) -> None:
        if not callable(target) and not hasattr(target, "pair"):
            raise TypeError(f"target must be callable, got {target!r}")
        self._records = check.integer("records", records, least=1, most=2**40)
        if not callable(norm):
            check.choice("norm", norm, NORMS)
        if not isinstance(vectorised, bool):
            raise TypeError(f"vectorised must be True or False, got {vectorised!r}")
        limit = check.real("bound", bound, "a number > 0", 0.0, math.inf, low_open=True)
        self._bound = check.scalar("bound", limit)
        self._source = as_source(sample)
        native = hasattr(target, "_neighbour_values")
        if vectorised and grid is not None:
            raise ValueError("grid must not be given for a vectorised target, which returns arrays")
        batched = vectorised or native
        block = max(min(_BATCH_EVALUATIONS, _BATCH_RECORDS // (self._records + 1)), 1) if batched else 1
        self._plan = Plan(
            target=target,
            source=None if isinstance(self._source, PlainSource) else self._source,
            records=self._records,
            norm=norm,
            grid=grid,
            batched=batched,
            block=block,
            seed=None,
        )
        self._evaluations: Evaluations | None = None

    @property
    def evaluations(self) -> Evaluations | None:
        """What the last `estimate` sampled, complete or not; resume from it after an interrupt."""
        return self._evaluations

    def __repr__(self) -> str:
        return f"SensitivitySampler({_name(self._plan.target)}, records={self._records}, norm={self._norm!r})"

    @property
    def _norm(self) -> str:
        norm = self._plan.norm
        return norm if isinstance(norm, str) else _name(norm)

    def estimate(
        self,
        *,
        gamma: float | None = None,
        samples: int | None = None,
        method: str = "exchangeable",
        confidence: float | None = None,
        seconds: float | None = None,
        seed: int | None = None,
        executor: Any = None,
        progress: ProgressOption = False,
        resume: Evaluations | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> SensitivityEstimate:
        """Sample sensitivities and take the order statistic that the wanted guarantee asks for.

        Parameters
        ----------
        gamma, samples, method, confidence
            The operating point, see `operating_point`.
        seconds : float > 0, optional
            In place of `samples`: as many as fit, by a short measurement (without executor) beforehand.
        seed : int >= 0, optional
            Makes the estimate repeatable, however the work is split: evaluation i has its own random stream.
            Drawn afresh and reported if not given. Not for a `sample` with randomness of its own.
        executor : concurrent.futures-compatible, optional
            Threads, processes, or a dask ``client.get_executor()``; None evaluates in this thread.
        progress : bool or callable
            True: a line on standard error if that is a terminal. A callable gets (done, total).
        resume : Evaluations, optional
            Go on from these (of an error's or of this object's `evaluations`, or loaded from a file).
        checkpoint : path, optional
            A file that is kept up to date while sampling, resumed from if it exists, and removed at the end. Only
            its name tells whether it belongs to this target: take one file for each piece of work.

        Returns
        -------
        SensitivityEstimate

        Raises
        ------
        EvaluationError
            `TargetError`, `SamplerError` or `ExecutorError`, with the evaluations made so far; these are also
            in `evaluations` after an interrupt.
        ValueError
            If an argument is outside its domain; if the samples are too few for `gamma`.

        Notes
        -----
        Sampling ends early when the answer is decided: when the remaining evaluations cannot change it,
        because enough are infinite, or tied, or at the known `bound`. How many samples to take must not
        depend on the sensitivities seen: extending a finished estimate until it pleases voids the guarantee.
        """
        point = self._point(gamma, samples, method, confidence, seconds)
        if resume is not None and not isinstance(resume, Evaluations):
            raise TypeError(f"resume must be Evaluations, got {type(resume).__name__}")
        file = None if checkpoint is None else Path(check.path("checkpoint", checkpoint))
        if file is not None and not file.parent.is_dir():
            raise FileNotFoundError(f"checkpoint must be in an existing folder, got {file}")
        if file is not None and file.exists():
            if resume is not None:
                raise ValueError(f"resume must not be given when the checkpoint {file} exists")
            resume = Evaluations.load(file)
        seed = self._choose_seed(seed, resume)
        plan = _seeded(self._plan, seed)
        own = self._source if isinstance(self._source, PlainSource) else None
        work = Work(plan, own, point.samples, point.order, self._bound)
        if resume is not None:
            self._take_over(work, resume)
        saver = _Checkpoint(file, lambda: self._keep(work, seed))
        try:
            with Progress(progress, point.samples, "sensitivity") as shown:
                run(work, executor=executor, progress=shown, after_piece=saver.now_and_then)
        except EvaluationError as error:
            error.evaluations = self._keep(work, seed)
            made = len(error.evaluations)
            error.args = (f"{error.args[0]} ({made} of {point.samples} evaluations made are kept)",)
            saver.save()
            raise
        except BaseException:
            self._keep(work, seed)
            saver.save()
            raise
        self._keep(work, seed)
        saver.remove()
        return self._result(work, point, seed)

    def rate(self, *, seconds: float = 1.0) -> float:
        """Evaluations a second in this thread, measured for about `seconds`; to choose by budget.

        The sensitivities are thrown away, so that nothing seen here enters an estimate.
        """
        limit = check.scalar("seconds", check.positive("seconds", seconds))
        plan = _seeded(self._plan, None if self._plan.source is None else secrets.randbits(128))
        own = self._source if isinstance(self._source, PlainSource) else None
        count, taken, size = 0, 0.0, plan.block
        start = time.perf_counter()
        while taken < limit:
            work = Work(plan, own, size, size, math.inf)
            run(work, executor=None, progress=Progress(False, size, ""), after_piece=lambda: None)
            count += size
            taken = time.perf_counter() - start
            if taken < limit / 8:
                size *= 2
        return count / taken

    def _point(
        self,
        gamma: float | None,
        samples: int | None,
        method: str,
        confidence: float | None,
        seconds: float | None,
    ) -> OperatingPoint:
        if seconds is None:
            return operating_point(gamma=gamma, samples=samples, method=method, confidence=confidence)
        if samples is not None:
            raise ValueError("samples must not be given together with seconds")
        budget = check.scalar("seconds", check.positive("seconds", seconds))
        trial = min(1.0, budget / 10)
        return operating_point(
            gamma=gamma,
            method=method,
            confidence=confidence,
            evaluations_per_second=self.rate(seconds=trial),
            seconds=budget - trial,
        )

    def _choose_seed(self, seed: int | None, resume: Evaluations | None) -> int | None:
        if seed is not None:
            seed = check.integer("seed", seed, most=2**128 - 1)
        if isinstance(self._source, PlainSource):
            if seed is not None:
                raise ValueError(
                    "seed must not be given when sample takes only (count), its randomness is its own; "
                    "let it take (count, rng)"
                )
            return None
        if resume is not None:
            if seed is not None and seed != resume.seed:
                raise ValueError(f"seed must be that of the evaluations to resume, {resume.seed}, got {seed}")
            return resume.seed
        return secrets.randbits(128) if seed is None else seed

    def _take_over(self, work: Work, resume: Evaluations) -> None:
        mine = self._made(work, resume.seed)
        for name in ("target", "records", "norm", "block"):
            if getattr(mine, name) != getattr(resume, name):
                raise ValueError(
                    f"resume must be evaluations of the same {name}, {getattr(mine, name)!r}, "
                    f"got {getattr(resume, name)!r}"
                )
        if (resume.seed is None) != isinstance(self._source, PlainSource):
            raise ValueError("resume must be evaluations with the same kind of sample")
        work.shape = resume.shape
        known = resume.indices < len(work.values)
        work.values[resume.indices[known]] = resume.sensitivities[known]
        if resume.wanted != len(work.values) and work.plan.block > 1:
            # The last, shorter batch of either run is not part of the other.
            last = min(resume.wanted, len(work.values)) // work.plan.block * work.plan.block
            work.values[last:] = np.nan

    def _keep(self, work: Work, seed: int | None) -> Evaluations:
        self._evaluations = self._made(work, seed)
        return self._evaluations

    def _made(self, work: Work, seed: int | None) -> Evaluations:
        made = np.flatnonzero(~np.isnan(work.values))
        return Evaluations(
            indices=made,
            sensitivities=work.values[made],
            wanted=len(work.values),
            seed=seed,
            target=_name(work.plan.target),
            records=self._records,
            norm=self._norm,
            block=work.plan.block,
            shape=work.shape,
        )

    def _result(self, work: Work, point: OperatingPoint, seed: int | None) -> SensitivityEstimate:
        assert work.shape is not None
        return SensitivityEstimate(
            sensitivity=work.answer(),
            samples=point.samples,
            order=point.order,
            gamma=point.gamma,
            rho=point.rho,
            method=point.method,
            records=self._records,
            norm=self._norm,
            target=_name(work.plan.target),
            size=math.prod(work.shape),
            evaluated=work.used,
            infinite=int(np.count_nonzero(np.isinf(work.values[: work.used]))),
            seed=seed,
            grid=digest(work.plan.grid),
        )


@dataclass
class _Checkpoint:
    """Writes what has been evaluated to a file, not too often."""

    path: Path | None
    keep: Callable[[], Evaluations]
    written: float = -math.inf

    def now_and_then(self) -> None:
        if self.path is not None and time.monotonic() - self.written > _SECONDS_BETWEEN_CHECKPOINTS:
            self.save()

    def save(self) -> None:
        if self.path is not None:
            self.keep().save(self.path)
            self.written = time.monotonic()

    def remove(self) -> None:
        if self.path is not None:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()


def _seeded(plan: Plan, seed: int | None) -> Plan:
    return Plan(**{**plan.__dict__, "seed": seed})


def _name(function: Any) -> str:
    """A name for people: that of a function, the repr of a built-in target, the class of anything else."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str):
        return "the target" if name == "<lambda>" else name
    return repr(function) if hasattr(function, "_neighbour_values") else type(function).__name__
