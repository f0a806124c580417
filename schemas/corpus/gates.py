"""Section gates: the bounds that a version must hold to be published."""

from typing import TYPE_CHECKING

from pydantic import Field, create_model

from schemas.corpus.fields import Section
from schemas.gates import GATES, Gate


class _GateOptions(Section):
    """What a version must hold to be published. Where a bound changes, refused versions are judged anew; nothing is built."""

    def of(self, gate: Gate) -> float:
        return float(getattr(self, gate.key))


if TYPE_CHECKING:

    class GateOptions(_GateOptions):
        """A bound for each of ``schemas.gates.GATES``, by its key."""

        def __init__(self, **bounds: float) -> None: ...

else:
    GateOptions = create_model(
        "GateOptions",
        __base__=_GateOptions,
        __module__=__name__,
        __doc__=_GateOptions.__doc__,
        **{
            gate.key: (float, Field(gate.default, ge=gate.limits[0], le=gate.limits[1], description=gate.means))
            for gate in GATES
        },
    )
