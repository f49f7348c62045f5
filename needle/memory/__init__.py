"""Where did my memory go? Which tensors are alive, who holds them, and what a gradient costs.

Nothing here costs anything until it is used; ``import needle`` does not import it.
"""

from .census import Census, live_tensors
from .cost import GraphSummary, NodeCost, graph_summary, node_cost, recorded_nodes
from .creation import Origin, origin, track
from .growth import GrowthError, no_growth
from .heap import keep_heap
from .history import HistoryWarning, history_warning
from .holders import why_alive
from .holdings import Holding, held_by
from .naming import Chain
from .peaks import Peak, peak
from .pools import PoolStatistics, pool_statistics

__all__ = [
    "Census",
    "Chain",
    "GraphSummary",
    "GrowthError",
    "HistoryWarning",
    "Holding",
    "NodeCost",
    "Origin",
    "Peak",
    "PoolStatistics",
    "graph_summary",
    "held_by",
    "history_warning",
    "keep_heap",
    "live_tensors",
    "no_growth",
    "node_cost",
    "origin",
    "peak",
    "pool_statistics",
    "recorded_nodes",
    "track",
    "why_alive",
]
