"""Every HLO opcode, as constants: `ops.ADD`, `ops.REDUCE`. Declared by family in the modules below."""

from xyla.hlo.ops.basic import *  # noqa: F403
from xyla.hlo.ops.collectives import *  # noqa: F403
from xyla.hlo.ops.compute import *  # noqa: F403
from xyla.hlo.ops.control import *  # noqa: F403
from xyla.hlo.ops.elementwise import *  # noqa: F403
from xyla.hlo.ops.movement import *  # noqa: F403
