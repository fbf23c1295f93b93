"""What may happen to a folder between two lives of a sweep: checkpoints forged with a checksum of
their own, swapped, cut or taken from another folder; a log that is gone; a copy without it; another
environment. Whatever it was, the sweep ends with the numbers of an undisturbed one, and it is said.
"""

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import run_workers
from figures import Figures
from harness import child
from kills import compare, train
from run_workers import T, outcome
from test_run_kills import live

from recollect.store.database import FILE

REFUSED = 2
KEYED = 2  # the version of a checkpoint with a key
Mischief = Callable[[Path, random.Random], bool]  # on a folder; whether there was anything to do


def newest(folder: Path) -> Path | None:
    paths = sorted((folder / "checkpoints").glob("*.ckpt"), key=lambda path: path.stat().st_mtime)
    return paths[-1] if paths else None


def forge(folder: Path, draw: random.Random) -> bool:
    """A bit of its tensors or a digit of its header, then the sum of everything again."""
    path = newest(folder)
    if path is None:
        return False
    body = bytearray(path.read_bytes().split(b"\n", 2)[2])
    header = 8 + int.from_bytes(body[:8], "little")
    digits = [at for at in range(8, header) if chr(body[at]).isdigit()]
    if draw.random() < 0.5:
        body[draw.choice(digits)] = ord(draw.choice("0123456789"))
    else:
        body[draw.randrange(header, len(body))] ^= 1 << draw.randrange(8)
    digest = hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(b"recollect checkpoint %d\n%s\n" % (draw.choice((1, KEYED)), digest) + body)
    return True


def cut(folder: Path, draw: random.Random) -> bool:
    path = newest(folder)
    if path is not None:
        path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)])
    return path is not None


def rename(folder: Path, draw: random.Random) -> bool:
    """Its name says another step and other members; what it holds is right."""
    path = newest(folder)
    if path is not None:
        path.rename(path.with_name(f"{draw.randrange(16**12):012x}-{draw.randrange(99)}.ckpt"))
    return path is not None


def transplant(folder: Path, draw: random.Random) -> bool:
    """The checkpoints of the same runs in another folder, further on."""
    donor = folder.with_name(f"{folder.name}-donor")
    live(donor, donor.with_name(f"{donor.name}.journal"), 40, 0.0)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    (folder / "checkpoints").mkdir()
    for path in (donor / "checkpoints").glob("*.ckpt"):
        shutil.copyfile(path, folder / "checkpoints" / path.name)
    return newest(folder) is not None


def lose_log(folder: Path, draw: random.Random) -> bool:
    log = folder / f"{FILE}-wal"
    found = log.exists()
    log.unlink(missing_ok=True)
    if draw.random() < 0.5:
        (folder / f"{FILE}-shm").unlink(missing_ok=True)
    return found


MISCHIEF: tuple[Mischief, ...] = (forge, cut, rename, transplant, lose_log)


def disturb(count: int, place: Path, draw: random.Random) -> Figures:
    figures = Figures("a folder disturbed between two lives")
    train(place / "reference", T, 6)
    reference = outcome(place / "reference")
    told, drifts = 0, 0
    while figures.tried < count:
        folder = place / f"sweep{figures.tried}"
        life = folder.with_name(f"{folder.name}.journal")
        killed, _ = live(folder, life, draw.randrange(8, 60), draw.uniform(0, 0.02))
        mischief = draw.choice(MISCHIEF)
        if not killed or not mischief(folder, draw):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        figures.tried += 1
        drifts += _refuses_drift(place, folder, figures)
        end, _ = train(folder, T, 6)
        figures.expect(end == 0, f"{mischief.__name__}: not healed, {end}")
        compare(figures, outcome(folder), reference)
        told += any((folder / "checkpoints").glob("*.bad"))
        shutil.rmtree(folder)
    figures.notes.append(
        f"of {count:,} disturbed folders {told:,} had a checkpoint that was set aside; {drifts:,} "
        "were refused under another environment"
    )
    return figures


def _refuses_drift(place: Path, folder: Path, figures: Figures) -> bool:
    """Without kernels bits may differ: where a checkpoint is left, going on is refused."""
    said = place / "drift"
    said.with_suffix(".err").unlink(missing_ok=True)
    arguments = (run_workers.command, said, "resume", folder, "--device", "cpu", "--workers", "1")
    if newest(folder) is None:
        return False
    environment = {"RECOLLECT_KERNELS": "off", "RECOLLECT_FAILPOINT": "file.created:1"}
    # Where nothing is refused, because no checkpoint is sound, the first file it writes ends it.
    with child(place / "journal", *arguments, environment=environment) as running:
        code = running.end()
    complaint = said.with_suffix(".err").read_text()
    figures.look_for_tracebacks(complaint)
    if code == REFUSED:
        figures.expect("another environment (kernels on -> off)" in complaint, complaint)
    return code == REFUSED
