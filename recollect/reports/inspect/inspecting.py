"""Inspect a run of a folder: find it, get its weights, measure it, and save the record."""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recollect.analysis import rate_text
from recollect.analysis.wording import value_text
from recollect.errors import SpecError
from recollect.mixers.plugins.remembered import require_plugins
from recollect.model.model import Model
from recollect.plotting.text import plain
from recollect.reports.inspect import distance, scores
from recollect.reports.inspect.attention_maps import LayerMaps, layer_maps
from recollect.reports.inspect.pictures import draw_pictures
from recollect.reports.inspect.record import (
    FOLDER,
    MOMENTS,
    GradientNorms,
    InspectedLayer,
    Inspection,
    curve_points,
)
from recollect.reports.inspect.run_choice import choose_run
from recollect.reports.inspect.weight_history import (
    Consent,
    Tell,
    WeightHistory,
    ask_to_train,
    model_with_weights,
    weight_history,
)
from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.checking.runs import leave_out_wrong
from recollect.store.durable import make_folder
from recollect.store.joining.folders import require_own_store
from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.build import build_task
from recollect.tasks.options.pairs import PairsSpec

ROWS = 32  # the most test rows to inspect
# For one layer at one step: scores by name (H,), and shares around the key (H, OFFSETS).
_Scores = tuple[dict[str, Tensor], Tensor]


def inspect_run(
    folder: Path,
    run: str,
    device: torch.device | str = "cpu",
    again: bool = False,
    untrained: bool = False,
    tell: Tell = lambda done, of: None,
    consent: Consent | None = None,
) -> Inspection:
    """Inspect one run of a folder of results. Record and pictures are written to DIR/inspect.

    `run` is an id, the beginning of an id, or best:MIXER. With `again` the run is trained once
    more even if its weights were kept, to have them at many steps; `tell` is called with the
    progress. If no weights were kept, the run is trained again in any case, after calling `consent`
    if it is given. With `untrained` the run is not trained: without kept weights it is inspected as
    initialised.
    """
    if again and untrained:
        raise SpecError("a run is trained again or not; choose --again or --untrained")
    require_own_store(folder, "inspect", run)
    with Store.open(folder, read_only=True) as store:
        leave_out_wrong(store)
        row = choose_run(store.rows(), run)
        curve = store.curve(row.run_id)
        require_plugins(store, [row.spec])
    spec = RunSpec.parse(row.spec)
    device = torch.device(device)
    if consent is not None and not (again or untrained):
        ask_to_train(folder, spec, row, device, consent)
    # If the folder cannot be made, fail here rather than after the training.
    make_folder(folder / FOLDER / row.run_id)
    known = weight_history(folder, spec, row, device, again, untrained, tell)
    found = draw_pictures(measure_run(spec, row, curve, known, device), folder)
    found.save(folder / FOLDER / f"{row.run_id}.json")
    return found


def measure_run(
    run: RunSpec, row: RunRow, curve: list[Evaluation], known: WeightHistory, device: torch.device
) -> Inspection:
    """Compute all numbers of an inspection from the weights at some steps."""
    batch = first_test_rows(run, device)
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
        model = model_with_weights(run, known.weights[step], device)
        maps = layer_maps(model, batch.tokens_BL)
        losses.append(_loss(model, batch))
        # This is a property of the mixer, so the first step decides it.
        exclude = exclude or [layer is not None and not layer.probabilities for layer in maps]
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
    return Inspection(
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
        moments=MOMENTS[: len(ends)],
    )


def first_test_rows(run: RunSpec, device: torch.device) -> Batch:
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
        f"learning rate {rate_text(run.train.lr)}, seed {run.seed}"
    )


# ---- maps ----


def _scores(maps: LayerMaps, exclude: bool, targets: scores.Targets) -> _Scores:
    shares_BHLL = scores.shares(maps.size_BHLL, exclude)
    seen = targets.first(maps.size_BHLL.shape[0])
    return scores.scores(shares_BHLL, seen), scores.around_key(shares_BHLL, seen)


def _layer(
    name: str,
    ends: list[LayerMaps | None],
    over_steps: list[_Scores | None],
    exclude: bool,
    targets: scores.Targets,
) -> InspectedLayer | None:
    known = [maps for maps in ends if maps is not None]
    by_step = [found for found in over_steps if found is not None]
    if not known:
        return None
    first = known[0]
    seen = targets.first(first.size_BHLL.shape[0])
    shares = [scores.shares(maps.size_BHLL, exclude) for maps in known]
    mass = [distance.mass_by_distance(maps.size_BHLL, not exclude).tolist() for maps in known]
    return InspectedLayer(
        mixer=name,
        heads=first.heads,
        channels=first.channels,
        exclude_current_token=exclude,
        mass=mass,
        kept_per_token=[[distance.kept_per_token(head) for head in moment] for moment in mass],
        around_key=[around_HO.tolist() for _, around_HO in by_step],
        scores={score: [found[score].tolist() for found, _ in by_step] for score in by_step[0][0]},
        uniform=scores.uniform_scores(seen, exclude),
        maps=np.stack([shares_BHLL[0].numpy() for shares_BHLL in shares]),
    )


# ---- loss and gradients ----


def _loss(model: Model, batch: Batch) -> float:
    with torch.no_grad():
        losses_BK, _ = distance.losses_from_embedding(model, batch)
    return float(losses_BK.sum() / (batch.labels_BK != IGNORE).sum())


def _fewer_labels(batch: Batch) -> Batch:
    """The batch with at most MOST_LABELS labels per row, evenly spaced."""
    every = -(-batch.where_BK.shape[1] // distance.MOST_LABELS)
    return Batch(
        batch.tokens_BL,
        batch.where_BK[:, ::every],
        batch.labels_BK[:, ::every],
        batch.scored_BK[:, ::every],
    )


def _norms(model: Model, batch: Batch) -> Tensor:
    return distance.gradient_norms(*distance.losses_from_embedding(model, _fewer_labels(batch)))


def _gradients(norms: list[Tensor], batch: Batch, targets: scores.Targets) -> GradientNorms:
    few = _fewer_labels(batch)
    where_BK, valid_BK = few.where_BK, few.labels_BK != IGNORE
    return GradientNorms(
        [distance.by_distance(norms_BKL, where_BK, valid_BK).tolist() for norms_BKL in norms],
        [distance.at_targets(norms_BKL, where_BK, valid_BK, targets) for norms_BKL in norms],
    )
