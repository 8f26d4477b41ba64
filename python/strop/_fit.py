# SPDX-License-Identifier: Apache-2.0
"""strop.fit: the whole of a training run in one call."""

from __future__ import annotations

import numbers
import os
import pathlib
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from ._core import CheckpointState, Function, LinearLRScheduler, Module, Optimizer, SessionOptions
from ._data import ArrayBatches, Batches, batches_of
from ._errors import FailedStateError, InvalidArgumentError, MissingFileError

LOSSES = {
    "cross_entropy": _core.LossKind.CROSS_ENTROPY,
    "mse": _core.LossKind.MSE,
    "l1": _core.LossKind.L1,
    "bce": _core.LossKind.BCE_WITH_LOGITS,
}
OPTIMIZERS = {"adamw": _core.OptimizerKind.ADAMW, "sgd": _core.OptimizerKind.SGD}
FILES = ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint")


@dataclass
class Epoch:
    """What callbacks of fit see after an epoch.

    number: counts from 1.
    metrics: "loss", the mean over the epoch's samples; "learning_rate" after its last step; with validation data
        "val_loss", and "val_accuracy", from 0 to 1, where fit made a "cross_entropy" loss.
    module, optimizer: those that are trained.

    >>> def good_enough(epoch):
    ...     return epoch.metrics["loss"] < 2
    >>> result = strop.fit("model.onnx", (x, labels), loss="cross_entropy", epochs=50, callbacks=[good_enough])
    >>> result.stopped
    'callback'
    """

    number: int
    metrics: dict[str, float]
    module: Module
    optimizer: Optimizer


Callback = Callable[[Epoch], "bool | None"]


class _Folder:
    """A temporary folder, which goes with the object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="strop-fit-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass
class FitResult:
    """A trained model, as fit returns it.

    module, optimizer: what was trained; training may go on with them.
    outputs: the names of the model's own outputs, which predict returns and export keeps: those of the eval model
        beside the loss.
    history: a list for each metric of Epoch, with one float an epoch.
    stopped: "epochs", "early_stopping", "callback" or "interrupted".
    best_epoch: the epoch, from 1, whose parameters these are; 0 means the last one's, as without validation data.

    >>> result = strop.fit("model.onnx", (x, labels), loss="cross_entropy", validation=0.25, epochs=3)
    >>> sorted(result.history)
    ['learning_rate', 'loss', 'val_accuracy', 'val_loss']
    >>> result.predict(x).shape
    (8, 3)
    >>> result.export("tuned.onnx")
    >>> result.save("trained")
    """

    module: Module
    optimizer: Optimizer
    outputs: list[str]
    _folder: _Folder = field(repr=False)
    history: dict[str, list[float]] = field(default_factory=dict)
    stopped: str = "epochs"
    best_epoch: int = 0
    _function: Function | None = field(default=None, repr=False)
    _function_step: int = field(default=0, repr=False)  # the optimizer's when the function was made

    @property
    def state(self) -> CheckpointState:
        """The CheckpointState with the trained parameters."""
        return self.module.state

    def predict(self, *inputs: Any) -> np.ndarray[Any, Any] | tuple[np.ndarray[Any, Any], ...]:
        """The model's outputs for its inputs, without a target.

        The parameters are those that the first call found: what is trained later is not seen.

        Args:
            inputs: arrays in the order of the model's inputs, of exactly its element types.

        Returns:
            One new array, or a tuple in the order of `outputs`.

        Raises:
            Error: TypeError or ValueError for inputs that do not fit; a plain Error where fit was given artifacts.
        """
        if self._function is None or self._function_step != self.optimizer.step_count:
            path = os.path.join(self._folder.name, "tuned.onnx")
            self.export(path)
            self._function, self._function_step = Function(path), self.optimizer.step_count
        outputs, _ = self._function(*inputs)
        arrays = tuple(outputs.values())
        return arrays[0] if len(arrays) == 1 else arrays

    def export(self, path: str | os.PathLike[str], outputs: Sequence[str] | None = None) -> None:
        """Writes an .onnx file for inference with the trained parameters.

        Args:
            path: the file to write.
            outputs: the names of its outputs, any values of the eval model; by default `outputs` of the result.

        Raises:
            Error: KeyError for an unknown name, OSError where the file cannot be written; a plain Error where fit was
                given artifacts and no outputs are named.
        """
        names = list(outputs) if outputs is not None else self.outputs
        if not names:
            raise FailedStateError("export: the artifacts have no output beside the loss; name the values to export")
        self.module.export_model_for_inferencing(path, names)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the four artifacts into a folder, which is made if it is not there.

        The checkpoint holds the trained parameters and the optimizer's state: fit and Module go on from them. OSError
        is raised where the folder cannot be written.
        """
        target = pathlib.Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for entry in os.scandir(self._folder.name):
            if entry.name.startswith(FILES[:3]):
                shutil.copyfile(entry.path, target / entry.name)
        CheckpointState.save_checkpoint(self.state, target / "checkpoint", include_optimizer_state=True)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws the losses over the epochs with matplotlib.

        Returns the matplotlib.figure.Figure, and writes it to `path` (.png, .svg, ...) if one is given. ImportError is
        raised where matplotlib is not installed.
        """
        from matplotlib.figure import Figure  # type: ignore[import-not-found,import-untyped,unused-ignore]

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        epochs = range(1, len(self.history.get("loss", ())) + 1)
        for name, values in self.history.items():
            if name.endswith("loss"):
                axes.plot(epochs, values, marker="o", markersize=3, label=name)
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        if self.history:
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


def fit(
    model: Any,
    data: Any,
    *,
    loss: str | None = None,
    validation: Any = None,
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    optimizer: str = "adamw",
    weight_decay: float = 0.0,
    clip_grad_norm: float | None = None,
    train: Sequence[str] = (),
    freeze: Sequence[str] = (),
    warmup_steps: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    early_stopping: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    options: SessionOptions | None = None,
) -> FitResult:
    """Trains a model on arrays or batches.

    With validation data, the parameters of the best epoch are the result's. Ctrl-C ends the training, not the
    program: the result then says stopped == "interrupted".

    Args:
        model: an .onnx file, bytes or an onnx.ModelProto; or a folder of training artifacts, which bring their loss,
            parameters and optimizer themselves.
        data: (inputs..., target) as a tuple or list of arrays, a dict of arrays by input name, or an iterable of
            batches that are such (a torch DataLoader), which is iterated once an epoch. Arrays have the samples along
            their first axis. The target of "cross_entropy" is called "labels": int64 [n, ...], classes from 0; that
            of the others is "target", of the output's type and shape. Element types must be exactly the model's.
        loss: "cross_entropy", "mse", "l1" or "bce" (with logits), the mean over the batch; None where the model's
            first output is the loss.
        validation: data like `data`, or with arrays the fraction of the samples to hold out, the last ones; a float.
        epochs: passes over the data, 1 or more.
        batch_size: samples of a step, for arrays only; the last batch of an epoch may be smaller.
        learning_rate: of each step. With `warmup_steps` it rises linearly from 0 during the first of them, then falls
            to 0 at the end of the last epoch.
        optimizer: "adamw" or "sgd".
        weight_decay: of "adamw", the share of a parameter taken off each step, times the learning rate.
        clip_grad_norm: the most that the norm of all gradients together may be; None for no clip.
        train, freeze: names of parameters to train, and not to; * and ? stand for any text and any character. By
            default all are trained.
        warmup_steps: batches, 0 or more; None for a constant learning rate.
        shuffle: whether to take the samples of arrays in another order each epoch.
        seed: of that order.
        early_stopping: epochs without a better validation loss (without validation data: loss) after which to stop.
        callbacks: called with an Epoch after each; training stops where one returns True.
        progress: whether to show a bar of tqdm, where it is installed; by default if standard error is a terminal or
            this is a notebook.
        options: SessionOptions of the Module.

    Returns:
        A FitResult.

    Raises:
        Error: FileNotFoundError where there is no file, or a folder lacks one, ValueError, TypeError or KeyError where
            arguments, data and model do not fit together, NotImplementedError naming the nodes that cannot be trained.
            All but the types and shapes of batches is checked before the first step.

    >>> result = strop.fit("model.onnx", (x, labels), loss="cross_entropy", epochs=5, learning_rate=0.01)
    >>> result.history["loss"][-1] < result.history["loss"][0]
    True
    >>> len(result.history["loss"]), result.stopped
    (5, 'epochs')
    """
    _check_whole("epochs", epochs, 1)
    _check_whole("batch_size", batch_size, 1)
    if early_stopping is not None:
        _check_whole("early_stopping", early_stopping, 1)
    if warmup_steps is not None:
        _check_whole("warmup_steps", warmup_steps, 0)
    if not isinstance(learning_rate, numbers.Real) or not 0 <= learning_rate < float("inf"):
        raise InvalidArgumentError(f"learning_rate is a number from 0 on, got {learning_rate!r}")
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise InvalidArgumentError(f"callbacks is a list of functions, got {callbacks!r}")
    folder = _Folder()
    outputs = _artifacts_into(folder.name, model, loss, optimizer, weight_decay, clip_grad_norm, train, freeze)
    paths = [os.path.join(folder.name, name) for name in FILES]
    state = CheckpointState.load_checkpoint(paths[3])
    module = Module(paths[0], state, paths[1], session_options=options)
    updates = Optimizer(paths[2], module)

    names = module.input_names()
    generator = np.random.default_rng(seed) if shuffle else None
    batches = batches_of("data", data, names, batch_size, generator, epochs)
    held: Batches | None = None
    if isinstance(validation, (float, np.floating)):
        if not isinstance(batches, ArrayBatches):
            raise InvalidArgumentError("validation: a fraction needs data that are arrays")
        batches, held = batches.split(float(validation))
    elif validation is not None:
        held = batches_of("validation", validation, names, batch_size, None, epochs)

    updates.set_learning_rate(learning_rate)
    scheduler = None
    if warmup_steps is not None:
        if len(batches) == 0:
            raise InvalidArgumentError("warmup_steps: a schedule needs data whose number of batches is known")
        scheduler = LinearLRScheduler(updates, warmup_steps, epochs * len(batches), learning_rate,
                                      first_step=updates.step_count)

    if not outputs:  # of artifacts: what their eval model gives beside the loss
        outputs = module.eval().output_names()[1:]
        module.train()
    result = FitResult(module, updates, outputs, folder)
    labels = names.index("labels") if loss == "cross_entropy" and "labels" in names else None
    run = _Run(result, batches, held, scheduler, labels, epochs, early_stopping, callbacks)
    run.train(_progress_wanted(progress))
    return result


# --- Artifacts


def _artifacts_into(
    folder: str,
    model: Any,
    loss: str | None,
    optimizer: str,
    weight_decay: float,
    clip_grad_norm: float | None,
    train: Sequence[str],
    freeze: Sequence[str],
) -> list[str]:
    """Makes the artifacts, or copies those of a folder. Returns the model's own outputs among theirs."""
    if isinstance(model, (str, os.PathLike)) and os.path.isdir(model):
        if loss is not None or train or freeze:
            raise InvalidArgumentError("artifacts bring their loss and parameters: leave out loss, train and freeze")
        if optimizer != "adamw" or weight_decay or clip_grad_norm is not None:
            raise InvalidArgumentError(
                "artifacts bring their optimizer: leave out optimizer, weight_decay and clip_grad_norm"
            )
        missing = [name for name in FILES if not os.path.exists(os.path.join(model, name))]
        if missing:
            raise MissingFileError(f"{os.fspath(model)} is no folder of training artifacts: it has no {missing[0]}")
        for path in pathlib.Path(model).iterdir():
            if path.name.startswith(FILES) and path.is_file():
                shutil.copyfile(path, os.path.join(folder, path.name))
        return []
    settings = _core.ArtifactOptions()
    if loss is not None:
        made = _core.Loss()
        made.kind = _choice("loss", loss, LOSSES)
        settings.losses = [made]
    settings.optimizer = _choice("optimizer", optimizer, OPTIMIZERS)
    adamw = _core.AdamWOptions()
    adamw.weight_decay = weight_decay
    settings.adamw = adamw
    settings.clip_grad_norm = clip_grad_norm
    settings.requires_grad, settings.frozen_params = _names(train), _names(freeze)
    settings.keep_outputs = True
    report = _core.generate_artifacts(model, settings, folder)
    outputs: list[str] = report["user_outputs"]
    return outputs[1:] if loss is not None else outputs


def _check_whole(what: str, value: Any, least: int) -> None:
    if not isinstance(value, numbers.Integral) or value < least:
        raise InvalidArgumentError(f"{what} is a whole number from {least} on, got {value!r}")


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _choice(what: str, name: str, known: dict[str, Any]) -> Any:
    if name in known:
        return known[name]
    raise InvalidArgumentError(f"there is no {what} {name!r}; there are {', '.join(known)}")


# --- The run


class _Run:
    def __init__(
        self,
        result: FitResult,
        batches: Batches,
        held: Batches | None,
        scheduler: LinearLRScheduler | None,
        labels: int | None,
        epochs: int,
        patience: int | None,
        callbacks: Sequence[Callback],
    ):
        self.result, self.batches, self.held, self.scheduler = result, batches, held, scheduler
        self.labels, self.epochs, self.patience, self.callbacks = labels, epochs, patience, callbacks
        self.best_loss, self.best_epoch = np.inf, 0
        self.best: dict[str, np.ndarray[Any, Any]] = {}

    def train(self, progress: bool) -> None:
        result = self.result
        try:
            for number in range(1, self.epochs + 1):
                metrics = {"loss": self._train_epoch(number, progress)}
                metrics["learning_rate"] = result.optimizer.get_learning_rate()
                if self.held is not None:
                    metrics.update(self._validate())
                for name, value in metrics.items():
                    result.history.setdefault(name, []).append(value)
                self._note_best(number, metrics)
                epoch = Epoch(number, metrics, result.module, result.optimizer)
                if any([callback(epoch) for callback in self.callbacks]):
                    result.stopped = "callback"
                    break
                if self.patience is not None and number - self.best_epoch >= self.patience:
                    result.stopped = "early_stopping"
                    break
        except KeyboardInterrupt:
            result.stopped = "interrupted"
        self._restore_best()

    def _train_epoch(self, number: int, progress: bool) -> float:
        module, optimizer = self.result.module.train(), self.result.optimizer
        total, count = 0.0, 0
        for batch in _with_progress(self.batches, f"epoch {number}/{self.epochs}", progress):
            outputs = module(*batch)
            total += float(_first(outputs).mean()) * len(batch[0])
            count += len(batch[0])
            optimizer.step()
            module.lazy_reset_grad()
            if self.scheduler is not None:
                self.scheduler.step()
        if count == 0:
            raise InvalidArgumentError("data: there is no batch")
        return total / count

    def _validate(self) -> dict[str, float]:
        module = self.result.module.eval()
        total, count, right = 0.0, 0, 0.0
        assert self.held is not None
        for batch in self.held.epoch():
            outputs = module(*batch)
            total += float(_first(outputs).mean()) * len(batch[0])
            count += len(batch[0])
            if self.labels is not None and isinstance(outputs, tuple):
                labels = np.asarray(batch[self.labels])
                right += int((outputs[1].argmax(1) == labels).sum()) / max(labels[0].size, 1)
        module.train()
        if count == 0:
            raise InvalidArgumentError("validation: there is no batch")
        metrics = {"val_loss": total / count}
        if self.labels is not None:
            metrics["val_accuracy"] = right / count
        return metrics

    def _note_best(self, number: int, metrics: dict[str, float]) -> None:
        loss = metrics.get("val_loss", metrics["loss"])
        if not loss < self.best_loss:
            return
        self.best_loss, self.best_epoch = loss, number
        if self.held is not None:
            self.best = {name: p.data for name, p in self.result.state.parameters.items()}

    def _restore_best(self) -> None:
        if not self.best:
            return
        for name, value in self.best.items():
            self.result.state.parameters[name] = value
        self.result.best_epoch = self.best_epoch


def _first(outputs: Any) -> np.ndarray[Any, Any]:
    first: np.ndarray[Any, Any] = outputs[0] if isinstance(outputs, tuple) else outputs
    return first


def _progress_wanted(progress: bool | None) -> bool:
    in_notebook = "ipykernel" in sys.modules
    return sys.stderr.isatty() or in_notebook if progress is None else progress


def _with_progress(batches: Batches, title: str, wanted: bool) -> Iterator[list[Any]]:
    if wanted:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            pass
        else:
            yield from tqdm(batches.epoch(), desc=title, total=len(batches) or None)
            return
    yield from batches.epoch()
