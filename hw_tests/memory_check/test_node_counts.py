"""Every op is held to the number of nodes that the table of the documentation says its gradient makes."""

import op_table
import pytest


def rows():
    """The rows of the table as it stands in the documentation: op, number of nodes."""
    lines = [
        line.split("|") for line in op_table.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    return {cells[1].strip(): int(cells[2]) for cells in lines[1:]}


def test_every_op_has_an_example():
    assert {op.__name__ for op in op_table.exported()} == {op.__name__ for op in op_table.EXAMPLES}


@pytest.mark.parametrize("op", op_table.EXAMPLES, ids=lambda op: op.__name__)
@pytest.mark.cpu_only("counts nodes, which are as many on every device")
def test_the_gradient_makes_no_more_nodes_than_the_table_says(op):
    made = op_table.count(op)
    assert sum(made.values()) <= rows()[op.__name__], f"{op.__name__}.gradient makes {dict(made)}"


@pytest.mark.cpu_only("counts nodes, which are as many on every device")
def test_the_table_is_up_to_date():
    assert op_table.PAGE.read_text(encoding="utf-8") == op_table.page(), (
        "write it again: python hw_tests/memory_check/op_table.py"
    )


@pytest.mark.parametrize("name", ["BroadcastTo", "SumTo"])
def test_broadcasting_costs_one_node(name):
    assert rows()[name] == 1
