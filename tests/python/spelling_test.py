"""Messages of the library in Python's words."""
import numpy as np
import pytest
import vernier
from conftest import MODEL
from vernier._spelling import in_python


@pytest.mark.parametrize("message, expected", [
    ("size 'seq' defaults to 1..512; give --shapes seq=MIN..MAX to change it",
     "size 'seq' defaults to 1..512; give shapes='seq=MIN..MAX' to change it"),
    ("build it with --shapes for other sizes", "build it with shapes= for other sizes"),
    ("--shapes: 'x=1': expected", "shapes: 'x=1': expected"),
    ("as --rule 'name:/a/Mul store=f32' would", "as rules=['name:/a/Mul store=f32'] would"),
    ("rule 1 (--layerPrecisions 'Norm_*:fp32') matches nothing",
     "rule 1 (layer_precisions='Norm_*:fp32') matches nothing"),
    ("Until then, build --fuse norms=off leaves the pass out.",
     "Until then, build fuse_off=['norms'] leaves the pass out."),
    ("a part of the model (--from, --to) is no verdict", "a part of the model (begin=, end=) is no "
     "verdict"),
    ("build with --outputs /a/Add, or take one", "build with outputs=['/a/Add'], or take one"),
    ("build it with --device cpu, or run it", "build it with device='cpu', or run it"),
    ("set --tolerance rms=1e-3.", "set tolerance='rms=1e-3'."),
    ("--batches: 9 is outside the engine's range", "batches: 9 is outside the engine's range"),
    ("give --tuning a file made there", "give the command line's --tuning a file made there"),
    ("--why: no node 'x'; --ledger lists them", "node: no node 'x'; view='ledger' lists them"),
    ("the memory limit (max-memory) is 4.0 GB", "the memory limit (max_memory) is 4.0 GB"),
    ("`vernier inspect MODEL --raised` shows it", "`vernier.inspect(MODEL, view='raised')` shows it"),
    ("'vernier verify E --model M --stamp' makes one", "`vernier.verify(E, model=M, stamp=True)` makes "
     "one"),
    ("'vernier verify --inputs' finds what overflows", "`vernier.verify(inputs=…)` finds what "
     "overflows"),
    ("'vernier bisect E --model M' finds it", "`vernier.bisect(E, model=M)` finds it"),
    ("'vernier extract M --to y' makes it", "`vernier.extract(M, end=['y'])` makes it"),
    ("'vernier bench M --to y' makes it", "'vernier bench M --to y' makes it"),
    ("verdict: precision\nnext: vernier bisect s.vn --model 'a b.onnx' --batches 1,4 --seed 3\nend",
     "verdict: precision\nnext: `vernier.bisect('s.vn', model='a b.onnx', batches=[1, 4], seed=3)`\n"
     "end"),
    # What users and files wrote stays.
    ("cannot read '--shapes.onnx'", "cannot read '--shapes.onnx'"),
    ("the model's value 'a --rule b'", "the model's value 'a --rule b'"),
    ("no option here", "no option here"),
])
def test_options_become_arguments(message, expected):
    assert in_python(message) == expected


def test_errors_notes_and_explanations_name_arguments(engine_path, session, tmp_path):
    with pytest.raises(vernier.Error, match=r"^shapes: 'bach=1\.\.2'.*did you mean 'batch'") as error:
        vernier.build(MODEL, tmp_path / "m.vn", shapes="bach=1..2")
    assert "--" not in str(error.value)
    ids = np.zeros((65, 4), np.int64)
    with pytest.raises(vernier.Error, match="build with shapes='batch="):
        session.run({"input_ids": ids, "attention_mask": ids + 1})
    with pytest.raises(vernier.Error, match="^begin: the model has no value 'nowhere'"):
        vernier.verify(engine_path, MODEL, begin=["nowhere"])
    with pytest.raises(vernier.Error, match="max_memory"):
        vernier.build(MODEL, tmp_path / "m.vn", max_memory=1)
    report = vernier.build(MODEL, tmp_path / "m.vn")
    assert any("give shapes='" in note for note in report["notes"])
    assert not any("--" in note for note in report["notes"])
