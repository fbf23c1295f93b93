"""Pictures of any rows with any mixers: `recollect figure rates|windows|curves|scaling`."""

from recollect.reports.pictures.choosing import choose_rows as choose_rows
from recollect.reports.pictures.choosing import keys_of_several as keys_of_several
from recollect.reports.pictures.comparable import Choice as Choice
from recollect.reports.pictures.comparable import choose_for_picture as choose_for_picture
from recollect.reports.pictures.comparable import of_one_recipe as of_one_recipe
from recollect.reports.pictures.look import Look as Look
from recollect.reports.pictures.request import KINDS as KINDS
from recollect.reports.pictures.request import PictureRequest as PictureRequest
from recollect.reports.pictures.request import read_size as read_size
from recollect.reports.pictures.shown import Source as Source
from recollect.reports.pictures.shown import names_of as names_of
