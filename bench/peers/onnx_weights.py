"""Which initialiser of a model that `vernier make-model` wrote is which tensor of PyTorch's module.

The names are the exporter's (src/make_model/torch_graph.h). A parameter that a node takes as it is keeps
its name: "bert.encoder.layer.0.attention.output.LayerNorm.bias". The weight of a linear layer is
stored transposed and without a name, "onnx::MatMul_97"; its place is in the name of the node that
takes it: "/bert/encoder/layer.0/attention/self/query/MatMul" → "….attention.self.query.weight".
state_names() and epsilon() need no package; read_state() needs numpy and onnx.
"""
import pathlib

ANONYMOUS = "onnx::MatMul_"
MODEL_PREFIXES = ("bert.", "roberta.")  # around all but the head


def state_name(initialiser, node):
    """(name in the module's state, is it stored transposed?)"""
    transposed = initialiser.startswith(ANONYMOUS)
    name = initialiser
    if transposed:
        name = node.strip("/").rpartition("/")[0].replace("/", ".") + ".weight"
    for prefix in MODEL_PREFIXES:
        name = name.removeprefix(prefix)
    return name, transposed


def state_names(graph):
    """{initialiser: state_name()}. ValueError unless every initialiser is used exactly once and no
    two of them are the same tensor of the module."""
    waiting = {tensor.name for tensor in graph.initializer}
    known, found = set(waiting), {}
    for node in graph.node:
        for name in node.input:
            if name not in known:
                continue
            if name in found:
                raise ValueError(f"initialiser '{name}' is used by '{node.name}' and before")
            found[name] = state_name(name, node.name)
            waiting.discard(name)
    if waiting:
        raise ValueError(f"no node uses {', '.join(sorted(waiting))}")
    names = [name for name, _ in found.values()]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"several initialisers are '{min(twice)}'")
    return found


def epsilon(graph):
    """The one epsilon of all LayerNormalization nodes."""
    values = {attribute.f for node in graph.node if node.op_type == "LayerNormalization"
              for attribute in node.attribute if attribute.name == "epsilon"}
    if len(values) != 1:
        raise ValueError(f"expected one epsilon for all norms, got {sorted(values)}")
    return values.pop()


def read_state(file):
    """({name: (array as stored, is it transposed?)}, epsilon) of an ONNX file, external data too."""
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(str(file), load_external_data=False).graph
    names, folder = state_names(graph), str(pathlib.Path(file).resolve().parent)
    state = {}
    for tensor in graph.initializer:
        name, transposed = names[tensor.name]
        state[name] = numpy_helper.to_array(tensor, folder), transposed
    return state, epsilon(graph)
