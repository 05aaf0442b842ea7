from wharfinger.api import capacity as capacity
from wharfinger.api import decide as decide
from wharfinger.api import diff as diff
from wharfinger.api import drain as drain
from wharfinger.api import explain as explain
from wharfinger.api import explain_group as explain_group
from wharfinger.api import load_config as load_config
from wharfinger.api import load_policies as load_policies
from wharfinger.api import load_snapshot as load_snapshot
from wharfinger.api import optimal as optimal
from wharfinger.api import place as place
from wharfinger.api import rebalance as rebalance
from wharfinger.api import tune as tune
from wharfinger.compiler.program import CompiledPolicy as CompiledPolicy
from wharfinger.errors import InvalidObject as InvalidObject
from wharfinger.errors import UnknownObject as UnknownObject
from wharfinger.errors import UsageError as UsageError
from wharfinger.errors import WharfingerError as WharfingerError
from wharfinger.explain.explanation import Explanation as Explanation
from wharfinger.framework.chain_settings import ChainConfig as ChainConfig
from wharfinger.framework.evaluation.decision import Decision as Decision
from wharfinger.language.report.diagnostics import PolicyError as PolicyError
from wharfinger.simulate.cluster import Cluster as Cluster
from wharfinger.what_if.optimal.search import Optimal as Optimal
from wharfinger.what_if.tune.search import Tuned as Tuned

__version__: str
