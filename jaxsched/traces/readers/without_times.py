"""Published tables that no trace can be made of, since they do not say when jobs were submitted."""

from typing import NoReturn

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike


def refuse(path: PathLike, held: str) -> NoReturn:
    """Refuse such a table.

    Args:
      path: the file.
      held: what it holds.

    Raises:
      JaxschedError: always.
    """
    raise JaxschedError(
        f"{path}: holds {held}, but no submission times; accepted: a trace with a submission time "
        "for each job"
    )
