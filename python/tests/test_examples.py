"""Each example is the whole file that a user would copy, and runs in seconds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"
# Keys that make a run short; the smallest accuracy, or the largest loss.
CASES = {
    "sklearn_sites": ([], ("final_accuracy", 0.8, 1)),
    "lora": (["--set", "stop.max_rounds=3"], ("final_accuracy", 0.5, 1)),
    "ddp_inside": ([], ("final_accuracy", 0.9, 1)),
    "gpt_own_tokens": (["--set", "stop.max_rounds=1", "--set", "sync.steps=3",
                        "--set", "report.every_rounds=1"], ("final_loss", 0, 6.9)),
}


@pytest.mark.parametrize("name", CASES)
def test_example(command, name):
    keys, (figure, least, most) = CASES[name]
    code, out, err = command.process(EXAMPLES / f"{name}.py", ["simulate", str(
        EXAMPLES / f"{name}.toml"), "--out", "run", "--quiet", *keys], limit_s=120)
    assert code == 0, out + err
    summary = json.loads((command.folder / "run/summary.json").read_text())
    assert least < summary[figure] <= most


def test_lora_sends_the_adapters_alone(command):
    sys.path.insert(0, str(EXAMPLES))
    import lora

    model = lora.backbone()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert sum(p.numel() for p in model.parameters()) > 1_300_000
    code, summary = command.simulate(str(EXAMPLES / "lora.toml"), lora.train, more=[
        "--set", "stop.max_rounds=2", "--set", "sync.steps=1"])
    assert code == 0
    least = 2 * 3 * 4 / 3 * trained * 4
    assert least <= summary["wan_bytes"] <= 1.05 * least


def test_time_measures_the_loop(command, capfd):
    code, out, err = command.process(EXAMPLES / "sklearn_sites.py", [
        "time", str(EXAMPLES / "sklearn_sites.toml"), "--json"])
    assert code == 0, err
    assert json.loads(out)["site"] == "clinic" and json.loads(out)["step_ms"] > 0
    code, out, err = command.process(EXAMPLES / "sklearn_sites.py", ["predict", "x"])
    assert code == 2 and "use the command longhaul predict" in err
