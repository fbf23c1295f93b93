"""What the results page says about the study's claims."""

from collections import Counter

from page_parts import NONE, table

from recollect.analysis import count_text

UNDECIDED = "not enough data"
ORDER = {
    "reproduced": "reproduced",
    "holds in part": "hold in part",
    "contradicted": "contradicted",
    UNDECIDED: "without enough data",
}


def claims_section(verdicts):
    """Verdicts by recipe, claim by claim, and in how many of each kind they end."""
    text = "## The study's claims\n\n"
    text += "Verdicts by recipe; in brackets the share of resampled seeds with the same verdict."
    text += (
        " [The rules](claims.md) are code; `recollect claims DIR...` prints the numbers and what"
    )
    text += " to train next.\n\n"
    for recipe, own in verdicts.items():
        text += f"- `{recipe}`: {count_text(len(own), 'claim')}, {outcomes_text(own)}.\n"
    lines = [
        (beside[0].claim.name, beside[0].claim.shown_statement, *map(verdict_text, beside))
        for beside in zip(*verdicts.values(), strict=True)
    ]
    return f"{text}\n{table(('claim', 'what it says', *verdicts), lines)}"


def outcomes_text(own):
    """3 reproduced, 16 hold in part, 2 contradicted, 11 without enough data"""
    counts = Counter(verdict.outcome for verdict in own)
    return ", ".join(f"{counts[kind]} {words}" for kind, words in ORDER.items() if counts[kind])


def verdict_text(verdict):
    firm = f" ({verdict.firmness:.0%})" if verdict.firmness is not None else ""
    by_tau = f"; {verdict.disagreement}" if verdict.disagreement else ""
    return f"{verdict.words}{firm}{by_tau}"


def contradicted_text(verdict):
    """C4, "Zoology's grid can miss the window": in 100% of resampled seeds"""
    firm = f"in {verdict.firmness:.0%} of resampled seeds" if verdict.firmness is not None else ""
    doubt = "; ".join(filter(None, [firm, verdict.disagreement]))
    return f'{verdict.claim.name}, "{verdict.claim.statement}"{": " if doubt else ""}{doubt}'


def unlike_section(verdicts):
    """What did not come out as the study says, with the numbers and what may explain it; and the
    numbers of what does, recipe by recipe.
    """
    unlike = [one for own in verdicts.values() for one in told(own) if one.tally.failing]
    text = "## What did not reproduce\n"
    if not unlike:
        text += "\nNothing so far, where there are rows enough to say.\n"
    text += "".join(verdict_section(verdict, verdicts) for verdict in unlike)
    holding = {
        recipe: like
        for recipe, own in verdicts.items()
        if (like := [one for one in told(own) if not one.tally.failing])
    }
    if holding:
        text += "\n## What holds so far\n\n"
        text += "Measured: of each claim the cell that comes nearest to failing.\n"
    for recipe, like in holding.items():
        lines = [
            (f"{one.claim.name}: {one.claim.shown_statement}", one.words, numbers(one))
            for one in like
        ]
        text += f"\n### Under {recipe}\n\n" + table(("claim", "verdict", "measured"), lines)
    return text


def told(own):
    """The verdicts that say anything."""
    return [verdict for verdict in own if verdict.outcome != UNDECIDED]


def verdict_section(verdict, verdicts):
    claim = verdict.claim
    text = f"\n### {claim.name} under {verdict.recipe}: {verdict.words}\n\n"
    counted = f"{verdict.tally.counted}: " if verdict.tally.cells > 1 else ""
    text += f"- The study: {claim.statement}.\n- Measured: {counted}{numbers(verdict)}\n"
    reasons = [verdict.disagreement, verdict.remark, claim.contradiction, claim.caveat]
    reasons = dict.fromkeys(sentence_of(reason) for reason in reasons if reason)
    other = [
        f"Under {recipe}: {verdict_text(twin)}."
        for recipe, own in verdicts.items()
        for twin in own
        if recipe != verdict.recipe and twin.claim is claim and twin.outcome != UNDECIDED
    ]
    return text + "".join(f"- {reason}\n" for reason in [*reasons, *other])


def numbers(verdict):
    """What decides it, without the count of cells and without what is missing."""
    text = verdict.numbers.split("; missing:")[0].removeprefix(f"{verdict.tally.counted}: ")
    return sentence_of(text) if text else NONE


def sentence_of(text):
    """A remark as a sentence."""
    return " ".join(text.split()).rstrip(".") + "."


def statements(name, verdicts):
    """What the study says of a figure, with the verdicts."""
    lines = []
    for beside in zip(*verdicts.values(), strict=True):
        claim = beside[0].claim
        if claim.figure == name:
            said = "; ".join(f"{one.recipe}: {one.words}" for one in told(beside))
            lines.append(f"- {claim.name}: {claim.statement}. {said or UNDECIDED.capitalize()}.\n")
    return "".join(lines)
