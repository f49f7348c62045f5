"""needle's benchmark: every workload side by side with its peers, in one run.

``python -m apps.bench`` runs each workload for needle and for every peer that is installed (PyTorch on the
CPU, HIPS autograd, MyGrad, and hand-written NumPy), and prints how their times compare.

How it measures
---------------
- Each contender lives in a process of its own, bound to one core, with one BLAS thread.
- The contenders take turns of about 30 ms, round after round. A machine that changes its speed, or a
  neighbour that takes the cache, then touches all of them alike.
- A turn is judged by the CPU time of its process, divided by the steps it made.
- Over the turns, the report gives the best, the median, and the median of needle's time divided by the
  peer's *in the same round*. That last figure is the one to trust, and the aims are about it.
- Before any turn, all contenders of a workload compute the same problem from the same numbers, and the
  harness compares what they got: a contender that computes something else is named.
- Each peer runs in its default settings. What the imports left is hidden from Python's garbage collector
  before the turns, which spares the larger libraries a cost that is not the step's own.

On a GPU
--------
``python -m apps.bench --device cuda`` measures needle and PyTorch on a GPU, by the wall clock, since what a GPU does
takes no CPU time; a turn begins and ends with waiting for it. Where a workload states the launches or the bytes that
it takes at the least, the report has the floor that follows from the speed of this GPU and of CuPy's launches.

How to add a workload
---------------------
Write a module in `apps/bench/workloads`, and add its name to the list in that package's ``__init__``. A
module holds a list ``WORKLOADS``; a workload is a name, a title, and one small function per contender, which
builds the state and returns a `Prepared` step::

    CUBE = Workload("cube", "x³ of 100×100 float32, forward and backward")

    @CUBE.contender("needle")
    def needle():
        import needle as ndl

        x = ndl.Tensor(problem())

        def step():
            (x**3).sum().backward(create_graph=False)

        return Prepared(step, lambda: {"gradient": x.grad.numpy()})

    CUBE.compare("cube", "needle", aims={"torch": 0.9})
    WORKLOADS = [CUBE]

A peer is imported inside its function, so that a workload can be listed, and run, without it.
"""
