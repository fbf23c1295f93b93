"""Dependence of a number on the seeds: windows of single seeds, resampled cells, and the window as
a function of the score that counts as solved.
"""

from recollect.analysis.seeds.resampling import Interval as Interval
from recollect.analysis.seeds.resampling import percentile_interval as percentile_interval
from recollect.analysis.seeds.resampling import resample as resample
from recollect.analysis.seeds.spread import SeedSpread as SeedSpread
from recollect.analysis.seeds.spread import seed_spread as seed_spread
from recollect.analysis.seeds.thresholds import TAUS as TAUS
from recollect.analysis.seeds.thresholds import ThresholdWindow as ThresholdWindow
from recollect.analysis.seeds.thresholds import windows_by_threshold as windows_by_threshold
