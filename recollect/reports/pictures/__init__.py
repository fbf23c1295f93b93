"""Pictures of any rows with any mixers: `recollect figure rates|windows|curves|scaling`."""

from recollect.reports.pictures.choosing import choose_rows as choose_rows
from recollect.reports.pictures.look import Look as Look
from recollect.reports.pictures.request import KINDS as KINDS
from recollect.reports.pictures.request import PictureRequest as PictureRequest
from recollect.reports.pictures.request import read_size as read_size
from recollect.reports.pictures.shown import Source as Source
