"""Runs a model and records each write to its state, with the statement that made it.

Hooks on attribute stores and a dispatch mode see most writes as they happen. What they cannot see, such as a list that grows, is
found by comparing the state before and after each call; a second run over a rebuilt model, under a line tracer, then tells
which statement did it. The tracer also records which statements ran.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import torch
from torch import nn

from truth.graph import Node
from truth.hooks import KernelWatch, attribute_hooks
from truth.record import Call, Observer, Record
from truth.sources import Sources
from truth.tracer import Change, LineTracer, changes_of, watches_of

Build = Callable[[], tuple[nn.Module, list[Call]]]


def observe(build: Build, sources: Sources, training: bool) -> Record:
    """Runs the calls of a case twice, first to see what changes, then with the tracer to see where."""
    record = Record()
    silent: list[list[Change]] = []
    stored: list[list[Change]] = []
    root, calls = _fresh(build, training)
    for call in calls:
        try:
            before, explained = _run(Observer(sources, record), root, call, training, None)
        except Exception:
            if not silent:
                raise
            break
        found = changes_of(before, explained)
        silent.append(found[0])
        stored.append(found[1])
        del before
    del root
    gc.collect()
    root, calls = _fresh(build, training)
    record.calls = len(silent)
    for call, changes in zip(calls[: record.calls], zip(silent, stored, strict=True), strict=True):
        _run(Observer(sources, record), root, call, training, changes)
    return record


def _fresh(build: Build, training: bool) -> tuple[nn.Module, list[Call]]:
    torch.manual_seed(0)
    root, calls = build()
    root.train(training)
    torch.manual_seed(1)
    return root, calls


def _run(
    observer: Observer, root: nn.Module, call: Call, training: bool, changes: tuple[list[Change], list[Change]] | None
) -> tuple[dict[int, Node], set[tuple[int, str]]]:
    before = observer.look(root, call)
    watches = [] if changes is None else watches_of(before, *changes)
    with attribute_hooks(observer), KernelWatch(observer), torch.set_grad_enabled(training):
        observer.active = True
        tracer = None if changes is None else LineTracer(observer, watches)
        try:
            if tracer is not None:
                sys.settrace(tracer)
            root(*call[0], **call[1])
        finally:
            sys.settrace(None)
            observer.active = False
            if tracer is not None:
                for name, line in tracer.executed:
                    observer.record.executed.add((name, observer.sources.statement_at(name, line).first))
    return before, observer.explained
