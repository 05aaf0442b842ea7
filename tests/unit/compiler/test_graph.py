"""The order of the operations of a graph."""

from __future__ import annotations

import operator

from tests.work import calls
from wharfinger.compiler.graph.ir import Graph, Op, Rep, ordered

N = 500
PLUS = Op(name="plus", scalar=operator.add)


def chain():
    """The nodes of a sum of sums of constants, in the order in which they are needed."""
    graph = Graph()
    nodes = [graph.const(1.0, Rep.FLOAT)]
    for number in range(N):
        other = graph.const(float(number + 2), Rep.FLOAT)
        nodes += [other, graph.apply(PLUS, (nodes[-1], other), Rep.FLOAT)]
    return nodes


def test_operands_come_before_the_operations_that_need_them():
    nodes = chain()
    assert ordered([nodes[-1], nodes[4], nodes[-1]]) == nodes
    assert ordered([nodes[4], nodes[-1]]) == nodes
    assert ordered([nodes[-1]], skip=lambda node: node is nodes[-3]) == [nodes[-2], nodes[-1]]


def test_a_node_is_put_aside_once():
    nodes = chain()
    assert calls(lambda: ordered([nodes[-1]])) < 2.2 * len(nodes)
