"""From a folder and the name of a run to all that can be seen inside it."""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recollect.analysis import rate_text
from recollect.analysis.settings import value_text
from recollect.model.model import Model
from recollect.reports.inspect import memory, scores
from recollect.reports.inspect.attention_maps import LayerMaps, layer_maps
from recollect.reports.inspect.choice import choose
from recollect.reports.inspect.draw import draw
from recollect.reports.inspect.examination import (
    FOLDER,
    Examination,
    Gradients,
    LayerFound,
    curve_points,
)
from recollect.reports.inspect.weights import History, Tell, history, with_weights
from recollect.reports.page.style import plain
from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.durable import make_folder
from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.build import build_task
from recollect.tasks.options.pairs import PairsSpec

ROWS = 32
_Scores = tuple[
    dict[str, Tensor], Tensor
]  # of one layer at one step: by name (H,), and (H, OFFSETS)


def examine(
    folder: Path,
    run: str,
    device: torch.device | str = "cpu",
    again: bool = False,
    tell: Tell = lambda done, of: None,
) -> Examination:
    """Look inside one run of a folder of results; numbers and pictures are left under DIR/inspect.

    `run` is an id, the beginning of one, or best:MIXER. With `again` the run is trained once more
    even if its weights were kept, to have them at many steps; `tell` hears how far that is.
    """
    with Store.open(folder, read_only=True) as store:
        row = choose(store.rows(), run)
        curve = store.curve(row.run_id)
    make_folder(
        folder / FOLDER / row.run_id
    )  # if that is not allowed, it is better known before than after the training
    spec = RunSpec.parse(row.spec)
    device = torch.device(device)
    found = look(spec, row, curve, history(folder, spec, row, device, again, tell), device)
    found = draw(found, folder)
    found.save(folder / FOLDER / f"{row.run_id}.json")
    return found


def look(
    run: RunSpec, row: RunRow, curve: list[Evaluation], known: History, device: torch.device
) -> Examination:
    """All numbers of an examination, from the weights at some steps; the pictures are drawn from
    these.
    """
    batch = some_rows(run, device)
    targets = scores.find_targets(
        batch, run.task.pairs if isinstance(run.task, PairsSpec) else None
    )
    steps = sorted(known.weights)
    losses: list[float] = []
    exclude: list[bool] = []
    over_steps: list[list[_Scores | None]] = []
    ends: list[list[LayerMaps | None]] = []
    norms: list[Tensor] = []
    for step in steps:
        model = with_weights(run, known.weights[step], device)
        maps = layer_maps(model, batch.tokens_BL)
        losses.append(_loss(model, batch))
        exclude = exclude or [
            layer is not None and not layer.probabilities for layer in maps
        ]  # as the mixer is, at any step
        over_steps.append(
            [
                None if layer is None else _scores(layer, without, targets)
                for layer, without in zip(maps, exclude, strict=True)
            ]
        )
        if step in (steps[0], steps[-1]):
            ends.append(maps)
            norms.append(_norms(model, batch))
    layers = [
        _layer(
            run.model.mixer.at(i).name,
            [maps[i] for maps in ends],
            [found[i] for found in over_steps],
            exclude[i],
            targets,
        )
        for i in range(run.model.depth)
    ]
    return Examination(
        run_id=run.run_id,
        name=_name(run),
        spec=row.spec,
        score_name=row.score_name,
        score=math.nan if row.score is None else row.score,
        test_loss=math.nan if row.test_loss is None else row.test_loss,
        weights=known.source,
        weights_test_loss=known.test_loss,
        rows=batch.rows,
        tokens=batch.tokens_BL[0].tolist(),
        questions=sorted(batch.where_BK[0][batch.scored_BK[0]].tolist()),
        offsets=list(scores.OFFSETS),
        steps=steps,
        losses=losses,
        layers=layers,
        gradients=_gradients(norms, batch, targets),
        curve=curve_points(curve, row.score_name),
    )


def some_rows(run: RunSpec, device: torch.device) -> Batch:
    """The first test rows of the run's own task."""
    data = build_task(run.task, run.data_seed, min(run.train.batch, ROWS), device)
    return data.batch(data.test_splits[0], 0)


def _name(run: RunSpec) -> str:
    model = run.model
    mixer = value_text(
        {"name": model.mixer.name, **model.mixer.model_dump(mode="json", exclude_defaults=True)}
    )
    return (
        f"{plain(mixer)}, depth {model.depth}, width {model.width}, "
        "learning "
        f"rate {rate_text(run.train.lr)}, seed {run.seed}"
    )


# ---- maps ----


def _scores(maps: LayerMaps, exclude: bool, targets: scores.Targets) -> _Scores:
    shares_BHLL, seen = (
        scores.shares(maps.size_BHLL, exclude),
        targets.first(maps.size_BHLL.shape[0]),
    )
    return scores.scores(shares_BHLL, seen), scores.around_key(shares_BHLL, seen)


def _layer(
    name: str,
    ends: list[LayerMaps | None],
    over_steps: list[_Scores | None],
    exclude: bool,
    targets: scores.Targets,
) -> LayerFound | None:
    known, by_step = (
        [maps for maps in ends if maps is not None],
        [found for found in over_steps if found is not None],
    )
    if not known:
        return None
    first = known[0]
    seen = targets.first(first.size_BHLL.shape[0])
    shares = [scores.shares(maps.size_BHLL, exclude) for maps in known]
    mass = [memory.mass_by_distance(maps.size_BHLL, not exclude).tolist() for maps in known]
    return LayerFound(
        mixer=name,
        heads=first.heads,
        channels=first.channels,
        exclude_current_token=exclude,
        mass=mass,
        kept_per_token=[[memory.kept_per_token(head) for head in moment] for moment in mass],
        around_key=[around_HO.tolist() for _, around_HO in by_step],
        scores={score: [found[score].tolist() for found, _ in by_step] for score in by_step[0][0]},
        uniform=scores.uniform_scores(seen, exclude),
        maps=np.stack([shares_BHLL[0].numpy() for shares_BHLL in shares]),
    )


# ---- loss and gradients ----


def _loss(model: Model, batch: Batch) -> float:
    with torch.no_grad():
        losses_BK, _ = memory.losses_from_embedding(model, batch)
    return float(losses_BK.sum() / (batch.labels_BK != IGNORE).sum())


def _fewer_labels(batch: Batch) -> Batch:
    """At most MOST_LABELS of each row, evenly chosen."""
    every = -(-batch.where_BK.shape[1] // memory.MOST_LABELS)
    return Batch(
        batch.tokens_BL,
        batch.where_BK[:, ::every],
        batch.labels_BK[:, ::every],
        batch.scored_BK[:, ::every],
    )


def _norms(model: Model, batch: Batch) -> Tensor:
    return memory.gradient_norms(*memory.losses_from_embedding(model, _fewer_labels(batch)))


def _gradients(norms: list[Tensor], batch: Batch, targets: scores.Targets) -> Gradients:
    few = _fewer_labels(batch)
    where_BK, valid_BK = few.where_BK, few.labels_BK != IGNORE
    return Gradients(
        [memory.by_distance(norms_BKL, where_BK, valid_BK).tolist() for norms_BKL in norms],
        [memory.at_targets(norms_BKL, where_BK, valid_BK, targets) for norms_BKL in norms],
    )
