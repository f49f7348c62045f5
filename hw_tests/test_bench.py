"""The benchmark's harness: what it runs, what it compares, and what it says when something goes wrong."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import needle as ndl
from apps.bench import __main__ as command
from apps.bench import gpu, harness, report
from apps.bench.machine import description
from apps.bench.worker import digest, numbers_of
from apps.bench.workload import Workload, choose, installed, load

ROOT = Path(__file__).resolve().parents[1]

TOYS = '''
import os, time
import numpy as np
from apps.bench.workload import Prepared, Workload

def constant(seconds, value=1.0, **options):
    """A contender that claims to take that long and computes that value."""
    return lambda: Prepared(lambda: None, lambda: {"value": np.full(3, value)}, measure=lambda: seconds, **options)

def raising():
    raise ValueError("no such kernel")

def broken_later():
    turns = iter(range(3))
    return Prepared(lambda: None, measure=lambda: [1.0, 1.0][next(turns)])

def printing():
    print("a library says hello")
    return Prepared(lambda: print("and again"), lambda: {"value": np.ones(3)})

def environment():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    threads = [float(os.environ[name]) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")]
    return Prepared(lambda: None, lambda: {"value": np.array([cores, *threads])})

def workload(name, **contenders):
    result = Workload(name, f"toy {name}")
    for variant, build in contenders.items():
        result.contender("numpy", variant)(build)
    first, *others = result.labels()
    result.compare(name, first, against=others)
    return result

WORKLOADS = [
    workload("same", a=constant(0.2), b=constant(0.4, per_step=4)),
    workload("other", a=constant(0.2), b=constant(0.4, value=1.001)),
    workload("raising", a=constant(0.2), b=raising, c=constant(0.1)),
    workload("later", a=constant(0.2), b=broken_later),
    workload("dying", a=constant(0.2), b=lambda: os._exit(3)),
    workload("hanging", a=lambda: time.sleep(60)),
    workload("printing", a=printing, b=printing),
    workload("environment", a=environment, b=lambda: Prepared(lambda: None, lambda: {"value": np.ones(4)})),
]
'''


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Write the toy workloads where the workers find them, too."""
    (tmp_path / "bench_toys.py").write_text(TOYS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bench_toys", raising=False)
    return {workload.name: workload for workload in load("bench_toys")}


def run(workload, **options):
    return harness.run_workload(workload, ["numpy"], source="bench_toys", **{"rounds": 3, "turn": 1e-4, **options})


def test_every_contender_takes_a_turn_in_every_round_and_the_time_is_per_unit_of_work(toys):
    result = run(toys["same"], rounds=5)
    assert result.seconds == {"numpy a": [0.2] * 5, "numpy b": [0.1] * 5}
    assert result.ok


def test_the_rounds_end_when_the_time_is_up_but_not_before_three(toys):
    result = run(toys["same"], rounds=1000, seconds=1e-9)
    assert len(result.seconds["numpy a"]) == 3


def test_a_contender_that_computes_other_numbers_is_named(toys):
    result = run(toys["other"])
    (line,) = result.disagreements
    assert line.startswith("numpy b: 'value' departs from numpy a's by")
    assert not result.ok


def test_a_contender_that_fails_is_reported_with_its_error_and_the_others_go_on(toys):
    result = run(toys["raising"])
    assert list(result.seconds) == ["numpy a", "numpy c"]
    assert list(result.failures) == ["numpy b"]
    assert result.failures["numpy b"].startswith("ValueError: no such kernel\nTraceback")


def test_a_contender_that_fails_in_a_later_round_leaves_no_figures_behind(toys):
    result = run(toys["later"])
    assert result.seconds == {"numpy a": [0.2] * 3}
    assert result.failures["numpy b"].startswith("IndexError")


def test_a_process_that_dies_is_reported_with_its_exit_code(toys):
    result = run(toys["dying"])
    assert result.failures == {"numpy b": "the process ended with code 3"}


def test_a_process_that_hangs_is_ended_and_reported(toys, monkeypatch):
    monkeypatch.setattr(harness, "ANSWER_WITHIN", 1.0)
    result = run(toys["hanging"])
    assert result.failures["numpy a"].startswith("no answer within 1 s")


def test_ctrl_c_while_the_timer_starts_leaves_no_thread_to_wait_for(toys, monkeypatch):
    timers = []

    class Interrupted(threading.Timer):
        def start(self):
            super().start()
            timers.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(harness.threading, "Timer", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(toys["same"])
    (timer,) = timers
    timer.join(30)
    assert not timer.is_alive()
    assert timer.daemon  # Ctrl-C may also come before it can be cancelled


def test_what_a_contender_prints_does_not_disturb_the_measurement(toys):
    result = run(toys["printing"])
    assert [len(times) for times in result.seconds.values()] == [3, 3]


def test_workers_run_on_one_core_with_one_blas_thread(toys):
    assert run(toys["environment"]).disagreements == []  # against a contender whose numbers are all one


@pytest.mark.parametrize(
    "change", [lambda a: a[::-1].copy(), lambda a: a + 1e-3, lambda a: np.where(np.arange(a.size) == 7, -a, a)]
)
def test_digests_tell_arrays_apart(change):
    array = np.random.default_rng(0).standard_normal(1000)
    toy = Workload("toy", "toy")
    digests = {"numpy": digest({"x": array}), "torch": digest({"x": change(array)})}
    assert len(harness.compare_numbers(toy, digests)) == 1


def test_digests_of_arrays_that_differ_by_rounding_agree():
    array = np.random.default_rng(0).standard_normal(1000)
    digests = {"numpy": digest({"x": array}), "torch": digest({"x": array.astype(np.float32)})}
    assert harness.compare_numbers(Workload("toy", "toy"), digests) == []


def test_numbers_that_are_not_finite_never_agree():
    digests = {name: digest({"x": np.array([np.nan])}) for name in ("numpy", "torch")}
    assert len(harness.compare_numbers(Workload("toy", "toy"), digests)) == 2


def two_sided(aim):
    toy = Workload("toy", "toy")
    toy.contender("needle")(lambda: None)
    toy.contender("torch")(lambda: None)
    toy.compare("toy", "needle", aims={"torch": aim})
    # The machine slows down by ten between the rounds; the ratio within each is 1/2, 1/2, 1.
    return harness.Result(toy, seconds={"needle": [1.0, 10.0, 100.0], "torch": [2.0, 20.0, 100.0]})


def test_the_ratio_is_the_median_over_the_rounds_of_the_quotient_within_each():
    result = two_sided(0.6)
    needle, torch = report.lines_of(result, result.workload.comparisons[0])
    assert (needle.best, needle.median, needle.ratio) == (1.0, 10.0, None)
    assert (torch.best, torch.median, torch.ratio, torch.best_ratio) == (2.0, 20.0, 0.5, 0.5)


@pytest.mark.parametrize(("aim", "verdict"), [(0.5, "≤ 0.50× met"), (0.49, "≤ 0.49× missed")])
def test_the_report_says_whether_an_aim_is_met(aim, verdict):
    assert verdict in report.text_table([two_sided(aim)])
    assert verdict in report.markdown_table([two_sided(aim)])


def test_the_columns_of_the_table_are_aligned():
    lines = report.text_table([two_sided(0.6)]).splitlines()
    needle, torch = (next(line for line in lines if line.startswith(f"  {peer} ")) for peer in ("needle", "torch"))
    assert needle.index("1000 ms") == torch.index("2000 ms")
    assert lines[0].index("best") + len("best") == needle.index("1000 ms") + len("1000 ms")


def test_every_row_of_the_markdown_table_has_a_cell_per_column():
    rows = report.markdown_table([two_sided(0.6)]).splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert "1000 ms / 10000 ms" in rows[2]


def test_a_missing_subject_leaves_the_peers_figures_without_ratios():
    result = two_sided(0.6)
    del result.seconds["needle"]
    (torch,) = report.lines_of(result, result.workload.comparisons[0])
    assert (torch.label, torch.ratio, torch.aim) == ("torch", None, "")


def test_the_command_ends_with_an_error_status_if_a_contender_failed_and_names_workload_and_peer(toys, capsys):
    assert command.main(["--source", "bench_toys", "--workload", "raising", "same", "--rounds", "3"]) == 1
    printed = capsys.readouterr()
    assert "raising: numpy b failed: ValueError: no such kernel" in printed.err
    assert "same (per step)" in printed.out


def test_the_command_ends_well_if_nothing_failed(toys, capsys):
    assert command.main(["--source", "bench_toys", "--workload", "same", "--rounds", "3", "--markdown"]) == 0
    assert "| same | step |" in capsys.readouterr().out


def test_a_missing_peer_is_said_in_one_line_and_left_out(toys, capsys, monkeypatch):
    monkeypatch.setattr(command, "installed", lambda peer: peer not in ("torch", "mygrad"))
    command.main(["--source", "bench_toys", "--workload", "same", "--rounds", "3"])
    assert "Left out: torch (not installed), mygrad (not installed)\n" in capsys.readouterr().out


def test_a_gpu_that_is_missing_is_said_in_one_line(capsys):
    if ndl.cuda().enabled():
        pytest.skip("there is a GPU here")
    assert command.main(["--device", "cuda"]) == 2
    assert capsys.readouterr().err.startswith("apps.bench: cuda() cannot be used: ")


def test_a_gpu_is_measured_with_the_floor_of_its_launches_and_its_memory(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cupy", reason="the emulated GPU asks cupy what it offers: pip install cupy-cuda13x")
    (tmp_path / "bench_gpu.py").write_text(
        "import emulated, needle\n"
        "needle.cuda = emulated.device\n"
        "from apps.bench.workloads import WORKLOADS\n"
        "chosen = WORKLOADS, [setattr(w, 'gpu_launches', 1) for w in WORKLOADS if w.name == 'adam']\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "hw_tests")]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ndl, "cuda", ndl.cuda)  # what the module changes is changed back
    words = ["--device", "cuda", "--source", "bench_gpu", "--workload", "adam", "import", "--rounds", "3"]
    assert command.main([*words, "--seconds", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "GPU: emulated; cupy " in out
    assert "numpy (computes on the CPU alone)" in out
    assert "import (per import)" not in out
    lines = [line.split() for line in out.splitlines() if re.match(r"  \S", line)]
    assert [line[:2] for line in lines] == [["needle", lines[0][1]], ["floor", "1"], ["floor", "140.1"]]
    assert "missed" not in out  # the aims are about the CPU
    ratios = [float(line[-1].rstrip("×")) for line in lines[1:]]
    assert min(ratios) > 1


def test_a_gpu_is_measured_and_waited_for_though_another_is_current(monkeypatch):
    emulated = pytest.importorskip("emulated", reason="asks cupy what it offers: pip install cupy-cuda13x")
    monkeypatch.setattr(ndl, "cuda", emulated.device)
    monkeypatch.setattr(gpu, "COPIED", 1000)
    before = ndl.default_device()
    try:
        wait = gpu.use("needle", "cuda:1")
    finally:
        ndl.set_default_device(before)
    with emulated.counting() as counts:
        wait()
        gpu.speed("cuda:1", launches=1, copies=1)
    assert counts.names["launch nothing"] == 2  # with one to warm up
    assert [name for name in counts.names if "sync" in name] == ["sync synchronize GPU 1"]


def test_an_unknown_workload_is_refused_with_the_names_there_are(capsys):
    assert command.main(["--workload", "quicksort"]) == 2
    assert "no workload 'quicksort'; there are engine, chain, " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--seconds", "-1"], ["--peer", "jax"]])
def test_senseless_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert arguments[1] in capsys.readouterr().err


def test_listing_imports_no_peer():
    script = (
        "import sys, json; from apps.bench.__main__ import main; main(['--list']); "
        "print(json.dumps(sorted({'needle', 'torch', 'autograd', 'mygrad'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    *listed, imported = done.stdout.splitlines()
    assert json.loads(imported) == []
    assert any(line.startswith("mlp-resnet ") for line in listed)


def test_a_contender_cannot_be_entered_twice_nor_compared_unless_entered():
    toy = Workload("toy", "toy")
    toy.contender("numpy")(lambda: None)
    with pytest.raises(ValueError, match="there is a contender 'numpy' already"):
        toy.contender("numpy")(lambda: None)
    with pytest.raises(ValueError, match="has no contender 'torch'; it has numpy"):
        toy.compare("toy", "numpy", against=["torch"])
    with pytest.raises(ValueError, match="peer 'jax' is none of needle, torch"):
        toy.contender("jax")


WORKLOADS = load("apps.bench.workloads")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_every_workload_measures_needle_against_something_or_a_limit(workload):
    subjects = [c for c in workload.comparisons if c.subject.startswith("needle")]
    assert subjects
    assert all(c.against or c.aim_seconds for c in subjects)
    assert choose(WORKLOADS, [workload.name])[0] is workload


def quick(workload):
    """The contenders whose numbers a test can afford: no PyTorch, no chain of 100,000 ops, no huge logits."""
    slow = ("autograd", "mygrad") if workload.name == "cross-entropy" else ()
    peers = [p for p in ("needle", "numpy", "autograd", "mygrad") if p not in slow and installed(p)]
    return [c for c in workload.contenders if c.peer in peers and "100,000" not in c.label]


@pytest.mark.filterwarnings("default")  # the peers' own warnings are not needle's
@pytest.mark.parametrize("workload", [w for w in WORKLOADS if w.name != "import"], ids=lambda w: w.name)
def test_all_contenders_compute_the_same_numbers(workload):
    digests = {c.label: numbers_of(workload, c) for c in quick(workload)}
    assert all(digests.values())
    assert harness.compare_numbers(workload, digests) == []


def test_the_description_says_the_machine():
    first, second = description().splitlines()
    assert first.startswith("Machine: ")
    assert f"{os.cpu_count()} logical cores" in first
    assert f"NumPy {np.__version__}" in second
