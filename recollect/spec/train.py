"""How a run is trained: AdamW, its schedule, and when the run is evaluated."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from recollect.spec.base import Later, PerMember, Spec

Exempt = Literal["none", "dynamics", "dynamics+norms+biases"]
Order = Literal["shared", "seed"]
LastBatch = Literal["drop", "keep"]
Precision = Literal["fp32", "tf32", "bf16"]
Decay = Literal["cosine", "linear", "constant", "cosine-per-epoch"]


class TrainSpec(Spec):
    """Settings of the training.

    The defaults follow the study: AdamW with weight decay 0.1 on every parameter, 10 % linear
    warmup, cosine to zero, 50 epochs.

    A specification file may give `epochs` instead of `steps` and may leave out `batch`. RunSpec
    resolves both, so that the id of a run always covers the numbers that were used.
    """

    lr: Annotated[float, PerMember()] = Field(
        default=1e-3, gt=0, le=1e3, description="learning rate at its peak"
    )
    weight_decay: Annotated[float, PerMember()] = Field(
        default=0.1, ge=0, le=1e3, description="decoupled, times the rate"
    )
    exempt: Annotated[Exempt, PerMember()] = Field(
        default="none",
        description="no weight decay on the dynamics (decay rates, step sizes, skips), or on norms "
        "and biases either",
    )
    warmup: Annotated[float, PerMember()] = Field(
        default=0.1, ge=0, le=1, description="share of the steps with a rising rate"
    )
    warmup_steps: Annotated[int, PerMember(), Later()] = Field(
        default=0,
        ge=0,
        description="steps with a rising rate, in place of a share of them; 0: as warmup says",
    )
    decay: Annotated[Decay, PerMember()] = Field(
        default="cosine", description="what the rate does after the warmup"
    )
    clip: Annotated[float, PerMember()] = Field(
        default=0.0, ge=0, description="largest gradient norm of a run; 0: no clipping"
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of AdamW's first moment")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay of AdamW's second moment")
    eps: float = Field(default=1e-8, gt=0, le=1, description="AdamW's epsilon")
    precision: Precision = Field(
        default="bf16",
        description="of matrix products on a GPU; weights, sums, norms and scans are fp32 always, "
        "and a CPU computes in fp32",
    )
    steps: int = Field(ge=1, le=100_000_000, examples=[1000], description="optimiser steps")
    batch: int = Field(ge=1, le=1_000_000, examples=[512], description="rows per step")
    order: Annotated[Order, Later()] = Field(
        default="shared",
        description="of the training rows: one that all seeds share, or one drawn from each seed",
    )
    last_batch: Annotated[LastBatch, Later()] = Field(
        default="drop",
        description="rows at the end of an epoch that fill no batch: left out, or a smaller step",
    )
    evaluations: int = Field(
        ge=1,
        le=1_000_000,
        examples=[20],
        description="evenly spaced looks at the test rows, the last step included",
    )
    stop_solved: Annotated[float, PerMember()] = Field(
        default=0.0,
        ge=0,
        le=1,
        description="stop a run after two evaluations in a row with at least this score; 0: never",
    )
    solved_evaluations: Annotated[int, PerMember(), Later()] = Field(
        default=2,
        ge=1,
        le=100,
        description="evaluations in a row that stop_solved wants; Zoology: 1",
    )
    stop_hopeless: Annotated[float, PerMember(), Later()] = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="stop a run whose training loss cannot fall any more, once only this share of "
        "its learning rate is ahead; 0: never",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_warmup(cls, raw: Any) -> Any:
        """Set `warmup` to 0 if `warmup_steps` is given and `warmup` is not."""
        return {"warmup": 0.0} | raw if isinstance(raw, dict) and raw.get("warmup_steps") else raw

    @model_validator(mode="after")
    def _has_one_warmup(self) -> Self:
        if self.warmup_steps and self.warmup:
            raise ValueError(
                f"warmup = {self.warmup} and warmup_steps = {self.warmup_steps}: give one of the "
                "two"
            )
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps}: must be at most steps = {self.steps}; use "
                "fewer"
            )
        return self

    @model_validator(mode="after")
    def _can_be_evaluated(self) -> Self:
        if self.evaluations > self.steps:
            raise ValueError(
                f"evaluations = {self.evaluations}: must be at most steps = {self.steps}; give "
                "fewer, or leave it out for a fitting number"
            )
        return self

    def evaluation_steps(self) -> list[int]:
        """The steps (counted from 1) after which the run is evaluated."""
        return [-(-self.steps * (i + 1) // self.evaluations) for i in range(self.evaluations)]
