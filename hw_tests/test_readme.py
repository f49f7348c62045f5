"""The README's Python code runs as it stands there."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=["opening", "training loop"])
def test_the_code_in_the_readme_runs(code):
    names = {}
    exec(code, names)
    if "loss_fn" in names:
        assert names["loss"].item() < 0.3  # chance is ln 2 = 0.69
    else:
        tanh = names["ndl"].tanh(names["x"]).numpy()
        slope = 1 - tanh**2  # of tanh; (tanh²)'' = 2 (slope² + tanh·slope'), slope' = −2 tanh·slope
        assert names["curvature"].numpy() == pytest.approx(2 * slope**2 - 4 * tanh**2 * slope)
