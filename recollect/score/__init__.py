"""A learnability card for a mixer: the same small sweep for every mixer, measured and set beside the stored baselines."""

from recollect.score.asked import Asked as Asked
from recollect.score.baselines import read_baselines as read_baselines
from recollect.score.baselines import save_baselines as save_baselines
from recollect.score.baselines import stored as stored
from recollect.score.card import CARDS as CARDS
from recollect.score.card import card_sweep as card_sweep
from recollect.score.card import read_entry as read_entry
from recollect.score.measure import Score as Score
from recollect.score.measure import measure as measure
from recollect.score.recipe import refuse_other_recipe as refuse_other_recipe
from recollect.score.table import score_tables as score_tables
