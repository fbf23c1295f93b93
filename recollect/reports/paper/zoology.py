"""The official results that the study compares with: the "green stars", from figure 2 of Zoology
(Arora et al. 2023).

They are digitised from assets/figure2.png of github.com/HazyResearch/zoology at tag iclr24
(de4e258), with an error of at most 0.02. A marker hidden behind another one is estimated and marked
as `hidden`. Attention's stars are all at 1; Mamba has none. Zoology's configuration gave the other
models four layers there, not two. The four rates searched are analysis.ZOOLOGY_RATES.
"""

from typing import NamedTuple

from recollect.reports.paper.study import SIZES

STAR_WIDTHS = (64, 128, 256, 512)


class Star(NamedTuple):
    """One official value."""

    accuracy: float
    hidden: bool = False


# By mixer and size, one word per width; `~` marks a hidden marker.
_DIGITISED = {
    "hyena": (".52 .75 .85 .87", "~.18 ~.65 ~.75 .84", "~.05 .14 .54 .69", "~.01 ~.02 .10 .17"),
    "rwkv4": (".76 ~.94 ~.97 ~1", ".17 .50 .76 .93", ".05 .07 .67 .79", ".01 .02 .15 .37"),
    "h3": (".93 1.0 ~.98 ~.98", ".25 .74 .92 .76", "~.1 .64 .62 ~.67", "~.01 ~.01 .02 .09"),
    "base_conv": (".70 .94 .96 1.0", ".37 .61 .85 .96", ".14 .34 .81 .93", "~.01 ~.02 ~.07 .71"),
    "attention": ("1 1 1 1", "1 1 1 1", "1 1 1 1", "1 1 1 1"),
}

STARS: dict[tuple[str, int, int, int], Star] = {
    (mixer, length, pairs, width): Star(float(word.lstrip("~")), word.startswith("~"))
    for mixer, lines in _DIGITISED.items()
    for (length, pairs), line in zip(SIZES, lines, strict=True)
    for width, word in zip(STAR_WIDTHS, line.split(), strict=True)
}


def star(mixer: str, length: int, pairs: int, width: int) -> Star | None:
    """The official value of a cell; None if the figure has none."""
    return STARS.get((mixer, length, pairs, width))
