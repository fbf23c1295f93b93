"""What the results page says about the study's claims."""

from collections import Counter

from page_parts import NONE, table
from result_reasons import doubt_text, explanation, thin_windows

from recollect.analysis import count_text
from recollect.reports.paper.claims.checks import join
from recollect.reports.paper.claims.coverage import MIXED
from recollect.reports.paper.claims.judge import RESAMPLES
from recollect.reports.paper.claims.verdicts import percent_text, shares_text

UNDECIDED = "not enough data"
# Of one claim and of several.
ORDER = {
    "reproduced": ("reproduced", "reproduced"),
    "holds in part": ("holds in every cell measured so far", "hold in every cell measured so far"),
    MIXED: (MIXED, "hold in some cells and fail in others"),
    "fails in part": ("fails in every cell measured so far", "fail in every cell measured so far"),
    "contradicted": ("contradicted", "contradicted"),
    UNDECIDED: ("without enough data", "without enough data"),
}
SHARES = f"""Verdicts by recipe; in brackets the share of {RESAMPLES} draws of other seeds with the
same verdict, and with the most frequent other one. To hold in part is to hold in every cell that is
decided, and to fail in part likewise. The draws
[vary less than seeds](decisions/intervals-over-seeds.md), so that a share near 100 % promises less
than it says. (ours): not in the study's words. [The rules](claims.md) are code;
`recollect claims DIR...` prints the numbers and what to train next."""
MOST_CELLS = 3  # whose numbers are told, of those that fail and of those that hold
REASONS = """A cell is one model, or the models that a claim compares, at one task size and width.
What may explain a failure was tried out: the claim was judged again by other recipes, with one
setting changed, and with lost seeds counted like the others of their rate. What turns the verdict
may explain it; that is no proof. What does not turn it may still matter beside something else.
"""


def claims_section(verdicts):
    """Verdicts by recipe, claim by claim, and in how many of each kind they end."""
    text = "## The study's claims\n\n"
    text += " ".join(SHARES.split()) + "\n\n"
    for recipe, own in verdicts.items():
        text += f"- `{recipe}`: {claims_text(own)}.\n"
    lines = [
        (beside[0].claim.name, beside[0].claim.shown_statement, *map(verdict_text, beside))
        for beside in zip(*verdicts.values(), strict=True)
    ]
    return f"{text}\n{table(('claim', 'what it says', *verdicts), lines)}"


def claims_text(own):
    """Of 30 claims of the study: 3 reproduced, 14 hold ...; of 2 of ours: 1 holds ..."""
    groups = [
        (count_text(len(those), "claim") + words, outcomes_text(those))
        for origin, words in (("study", " of the study"), ("ours", " of ours"))
        if (those := [verdict for verdict in own if verdict.claim.origin == origin])
    ]
    return "; ".join(f"of {name}: {found}" for name, found in groups)


def outcomes_text(own):
    """3 reproduced, 14 hold in every cell measured so far, 2 contradicted, ..."""
    counts = Counter(verdict.kind for verdict in own)
    return ", ".join(
        f"{counts[kind]} {words[counts[kind] > 1]}" for kind, words in ORDER.items() if counts[kind]
    )


def verdict_text(verdict):
    firm = f" ({shares_text(verdict)})" if verdict.firmness is not None else ""
    told = verdict.disagreement or verdict.other_taus
    by_tau = f"; {told}" if told else ""
    return f"{verdict.words}{firm}{by_tau}"


def contradicted_text(verdict):
    """C4, "Zoology's grid can miss the window": in >99 % of the draws of other seeds"""
    share = verdict.firmness
    firm = f"in {percent_text(share)} of the draws of other seeds" if share is not None else ""
    doubt = "; ".join(filter(None, [firm, verdict.disagreement]))
    return f'{verdict.claim.name}, "{verdict.claim.statement}"{": " if doubt else ""}{doubt}'


def unlike_section(verdicts, evidence):
    """What did not come out as the study says, with the numbers and what may explain it; and the
    numbers of what does, recipe by recipe.
    """
    unlike = [one for own in verdicts.values() for one in told(own) if one.tally.fails]
    text = "## What did not reproduce\n\n"
    text += REASONS if unlike else "Nothing so far, where there are rows enough to say.\n"
    text += "".join(verdict_section(verdict, evidence) for verdict in unlike)
    holding = {
        recipe: like
        for recipe, own in verdicts.items()
        if (like := [one for one in told(own) if not one.tally.fails])
    }
    if holding:
        text += "\n## What holds so far\n\n"
        text += "Measured: of each claim the cell that comes nearest to failing, the noise of seeds"
        text += " left out.\n"
    for recipe, like in holding.items():
        lines = [
            (
                f"{one.claim.name}: {one.claim.shown_statement}",
                one.words,
                " ".join([numbers(one), *map(doubt_text, thin_windows(one, evidence))]),
            )
            for one in like
        ]
        text += f"\n### Under {recipe}\n\n" + table(("claim", "verdict", "measured"), lines)
    return text


def told(own):
    """The verdicts that say anything."""
    return [verdict for verdict in own if verdict.outcome != UNDECIDED]


def verdict_section(verdict, evidence):
    """What the study says, the numbers against it and for it, and what may explain them."""
    claim = verdict.claim
    lines = [f"The study: {claim.statement}."]
    for words, holds in (("Against it", False), ("For it", True)):
        checks = [cell.check for cell in verdict.cells if cell.check.holds is holds]
        if checks:
            lines.append(f"{words}: {sentence_of(join((one.told for one in checks), MOST_CELLS))}")
    if verdict.remark:
        lines.append(sentence_of(verdict.remark))
    lines += explanation(verdict, evidence)
    text = f"\n### {claim.name} under `{verdict.recipe}`: {verdict.words}\n\n"
    return text + "".join(f"- {line}\n" for line in lines)


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
