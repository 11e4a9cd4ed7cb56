# Answers for a model with ONNX Runtime, for `vernier verify --also onnxruntime`, which starts this
# text as `PYTHON -c TEXT MODEL THREADS` (process.h). Standard input is a socket: it takes lines and
# gives lines, JSON both. The first line says what is here, and where arrays are exchanged; each line
# that comes asks for a run on FOLDER/in.npz, and the answer is in FOLDER/out.npz. The end of the
# socket ends the program, which removes the folder.
import sys

if sys.path[:1] == [""]:  # no module of the working directory
    del sys.path[0]

import json
import os
import socket
import tempfile
import zipfile


def in_one_line(error):
    return " ".join(str(error).split()) or type(error).__name__


def write_arrays(path, arrays):
    import numpy
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as member:
                numpy.lib.format.write_array(member, numpy.asarray(array), allow_pickle=False)


def run(session, folder):
    import numpy
    with numpy.load(os.path.join(folder, "in.npz"), allow_pickle=False) as arrays:
        feeds = {given.name: arrays[given.name] for given in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    write_arrays(os.path.join(folder, "out.npz"), dict(zip(names, session.run(names, feeds))))


def serve(model, threads, lines, say):
    try:
        import onnxruntime
    except ImportError as error:
        say({"missing": in_one_line(error)})
        return
    with tempfile.TemporaryDirectory(prefix="vernier-also-") as folder:
        here = {"version": onnxruntime.__version__, "folder": folder}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what it has to say comes as exceptions
        try:
            session = onnxruntime.InferenceSession(model, options,
                                                   providers=["CPUExecutionProvider"])
        except Exception as error:  # of every kind: it is said, not handled
            say(here | {"refused": in_one_line(error)})
            lines.read()
            return
        say(here)
        for _ in lines:
            try:
                run(session, folder)
                say({})
            except Exception as error:
                say({"refused": in_one_line(error)})


def main():
    with socket.socket(fileno=os.dup(0)) as connection:
        def say(answer):
            connection.sendall((json.dumps(answer) + "\n").encode())
        try:
            serve(sys.argv[1], int(sys.argv[2]), connection.makefile("r"), say)
        except (BrokenPipeError, ConnectionResetError):
            pass  # nobody waits any longer


main()
