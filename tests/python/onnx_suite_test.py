"""The backend tests of onnx give what onnx_suite.tsv has."""
import onnx
import onnx_suite
import pytest
import vernier
import vernier.backend
from conftest import MODEL, stored_case


def test_outcomes_are_those_of_the_list():
    found = onnx_suite.outcomes()
    print("\n".join(onnx_suite.totals(found)))
    listed = {name: outcome.split(":")[0] for name, outcome in onnx_suite.stored().items()}
    got = {name: outcome.split(":")[0] for name, outcome in found.items() if outcome != "pass"}
    assert got == listed, "run onnx_suite.py --write and read the difference"


def test_a_model_is_prepared_and_run():
    inputs, expected = stored_case(0)
    rep = vernier.backend.prepare(onnx.load(MODEL), shapes={"batch": (1, 4)}, threads=1)
    (answer,) = rep.run([inputs["input_ids"], inputs["attention_mask"]])
    assert abs(answer - expected["output"]).max() < 1e-5
    assert rep.run(inputs).output.tobytes() == answer.tobytes()
    assert vernier.backend.supports_device("CPU") and not vernier.backend.supports_device("TPU")
    with pytest.raises(vernier.Error, match="use run_model"):
        vernier.backend.run_node(None, [])
