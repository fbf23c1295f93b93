"""A learnability card for a mixer: the same small sweep for every mixer, compared with the stored
baselines.
"""

from recollect.reports.score.baselines import read_baselines as read_baselines
from recollect.reports.score.baselines import save_baselines as save_baselines
from recollect.reports.score.baselines import stored_baselines as stored_baselines
from recollect.reports.score.card import CARDS as CARDS
from recollect.reports.score.card import card_sweep as card_sweep
from recollect.reports.score.card import read_mixer as read_mixer
from recollect.reports.score.measure import MixerScore as MixerScore
from recollect.reports.score.measure import score_mixer as score_mixer
from recollect.reports.score.recipe import refuse_other_recipe as refuse_other_recipe
from recollect.reports.score.request import ScoreRequest as ScoreRequest
from recollect.reports.score.table import score_tables as score_tables
from recollect.reports.score.verdict import verdict as verdict
