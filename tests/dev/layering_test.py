#!/usr/bin/env python3
"""The layering check refuses a wrong include and says which file and line, what, and what is allowed."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "layering.py"


def run(files):
    """Runs the check over a temporary tree of {path: text}; returns (exit code, stderr)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(CHECK), folder], capture_output=True, text=True)
        return done.returncode, done.stderr


class LayeringTest(unittest.TestCase):
    def test_accepts_an_include_of_a_lower_layer(self):
        code, errors = run({
            "src/core/dim.h": "#pragma once\n",
            "src/ir/graph.h": '#include <vector>\n#include "core/dim.h"\n',
        })
        self.assertEqual((code, errors), (0, ""))

    def test_refuses_wrong_includes(self):
        # (including file, included file, part of the message)
        rows = [
            ("src/core/dim.h", "src/ir/graph.h", 'includes "ir/graph.h" (ir); core may include: api'),
            ("src/runtime/session.cpp", "src/ir/graph.h", "runtime may include: "),
            ("src/runtime/session.cpp", "src/ops/ops.h", '"ops/ops.h" (ops)'),
            ("src/runtime/session.cpp", "src/plan/planner.h", '"plan/planner.h" (planner)'),
            ("src/runtime/session.cpp", "src/engine/writer.h", '"engine/writer.h" (engine writer)'),
            ("src/backend/cpu/a.cpp", "src/backend/cuda/b.h", '"backend/cuda/b.h" (cuda)'),
            ("src/backend/kernel.h", "src/ops/ops.h", "kernel contract may include"),
            ("src/reference/add.cpp", "src/ops/ops.h", "reference may include: api, core"),
            ("src/plan/plan.h", "src/ir/graph.h", "plan data may include: api, core"),
            ("src/cli/build.cpp", "src/ops/ops.h", "cli may include"),
            ("src/core/x.h", "include/vernier/session.h", "(api of runtime)"),
        ]
        for source, target, message in rows:
            with self.subTest(source=source, target=target):
                name = target.split("/", 1)[1]
                code, errors = run({source: f'// first line\n#include "{name}"\n', target: "\n"})
                self.assertEqual(code, 1)
                self.assertIn(f"{source}:2: ", errors)
                self.assertIn(message, errors)

    def test_refuses_a_rule_that_matches_no_file(self):
        code, errors = run({"tools/layering.py": "", "src/core/dim.h": "#pragma once\n"})
        self.assertEqual(code, 1)
        self.assertIn('layer "ir" names ir/, which no file has', errors)

    def test_the_program_sees_the_public_interface_alone(self):
        for source in ("src/cli/verify.cpp", "python/bindings/native.cpp"):
            code, errors = run({source: '#include "verify/verify.h"\n', "src/verify/verify.h": "\n"})
            self.assertEqual(code, 1)
            self.assertIn("may include: api", errors)

    def test_anyone_may_include_the_operator_table(self):
        code, errors = run({
            "src/ops/ops.def": "\n",
            "src/core/op_kind.h": '#include "ops/ops.def"\n',
        })
        self.assertEqual((code, errors), (0, ""))

    def test_refuses_a_library_outside_its_layer(self):
        code, errors = run({"src/runtime/a.cpp": "#include <google/protobuf/message.h>\n"})
        self.assertEqual(code, 1)
        self.assertIn("src/runtime/a.cpp:1: includes <google/protobuf/message.h>", errors)

    def test_refuses_a_public_header_that_names_an_internal_namespace(self):
        internal = {"src/backend/kernel.h": "namespace vernier::backend {\n}\n"}
        rows = [
            ("namespace backend {\nstruct Backend;\n}\n", 1),
            ("namespace vernier::backend {\n}\n", 1),
            ("#pragma once\nvoid use(const backend::Backend& backend);\n", 2),
        ]
        for text, line in rows:
            with self.subTest(text=text):
                code, errors = run({**internal, "include/vernier/engine.h": text})
                self.assertEqual(code, 1)
                self.assertIn(f"include/vernier/engine.h:{line}: names the namespace 'backend' of "
                              "src/; a public header has public types only", errors)

    def test_a_public_header_may_name_public_namespaces_and_mention_files_of_src(self):
        code, errors = run({
            "src/backend/kernel.h": "namespace vernier::backend {\n}\n",
            "src/verify/verify.h": "namespace vernier::verify {\n}\n",
            "include/vernier/verify.h": "namespace vernier::verify {\n"
                                        "struct Impl;  ///< backend::Backend, src/verify/verify.h\n"
                                        "const verify::Request& backend();\n}\n",
        })
        self.assertEqual((code, errors), (0, ""))

    def test_refuses_a_folder_that_is_in_no_layer(self):
        code, errors = run({"src/helpers/a.cpp": "\n"})
        self.assertEqual(code, 1)
        self.assertIn("src/helpers/a.cpp:1: its folder is in no layer", errors)


if __name__ == "__main__":
    unittest.main()
