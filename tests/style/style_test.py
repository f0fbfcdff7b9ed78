"""The style checks themselves: each finds what it is there to find, and lets good code through."""

import pathlib
import sys
import tempfile
import unittest

import layers
import links
import programs
import rooms
import sizes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import test_summary  # noqa: E402

TABLE = "| room | may include | what |\n|---|---|---|\n| base | | b |\n| device | base | d |\n| stream | device base | s |\n"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/README.md", TABLE)

    def write(self, name: str, text: str):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Layers(Tree):
    def setUp(self):
        super().setUp()
        self.write("src/base/units.h", "#pragma once\n")
        self.write("src/device/device.h", '#pragma once\n#include "base/units.h"\n')

    def test_arrows_down_are_good(self):
        self.write("src/stream/loader.h", '#include "device/device.h"\n')
        self.write("src/stream/loader.cpp", '#include "stream/loader.h"\n#include <vector>\n')
        self.assertEqual(layers.check(self.root), [])

    def test_arrow_up_is_found(self):
        self.write("src/base/bad.cpp", '#include "device/device.h"\n')
        self.assertIn("base may not include device", layers.check(self.root)[0])

    def test_unknown_header_is_found(self):
        self.write("src/base/bad.cpp", '#include "nowhere.h"\n')
        self.assertEqual(len(layers.check(self.root)), 1)

    def test_room_without_row_is_found(self):
        self.write("src/extra/a.cpp", "\n")
        self.assertIn("no row", layers.check(self.root)[0])

    def test_circle_is_found(self):
        self.write("src/README.md", TABLE.replace("| base | |", "| base | stream |"))
        self.assertEqual(len([problem for problem in layers.check(self.root) if "circle" in problem]), 3)

    def test_cmake_dependency_up_is_found(self):
        self.write("src/base/CMakeLists.txt", "artesian_room(base DEPS device)\n")
        self.write("src/stream/CMakeLists.txt", "artesian_room(stream\n  DEPS device fmt::fmt TEST_DEPS artesian_x)\n")
        self.assertEqual(len(layers.check(self.root)), 1)

    def test_system_calls_and_environment_outside_their_rooms_are_found(self):
        self.write("src/device/bad.cpp", '#include <sys/mman.h>\nauto* home = std::getenv("HOME");\n')
        self.write("src/device/bad_test.cpp", '#include <sys/mman.h>\nauto* home = std::getenv("HOME");\n')
        self.assertEqual(len(layers.check(self.root)), 2)


LONG = "\n".join(["  work();"] * 69)


class Sizes(unittest.TestCase):
    def measure(self, text: str):
        return [(line, length) for line, length, _ in sizes.cpp_functions(text)]

    def test_plain_function(self):
        self.assertEqual(self.measure("int f() {\n  return 1;\n}\n"), [(1, 3)])

    def test_where_functions_hide(self):
        for before in ("namespace a::b {\n", 'extern "C" {\n', "class X : public Y<int> {\n public:\n", "struct Z final {\n",
                       "namespace {\nconstexpr int table[] = {1, 2};\n", 'const char* s = "{ \\" {";\n// {\nchar c = \'{\';\n',
                       'auto r = R"x({ " )x";\n', "#define OPEN {\n", "int n = 1'000'000;\n", "enum class E { a, b };\n"):
            text = before + "int f(int a,\n      int b) const noexcept {\n" + LONG + "\n}\n}\n"
            self.assertEqual([length for _, length in self.measure(text)], [72], before)

    def test_constructor_with_braced_members(self):
        text = "X::X(int a) : a_{a}, b_(std::move(b)), c_{1} {\n  if (a) {\n  }\n}\n"
        self.assertEqual(self.measure(text), [(1, 4)])

    def test_other_shapes(self):
        self.assertEqual(self.measure("auto f() -> Result<int> {\n}\n"), [(1, 2)])
        self.assertEqual(self.measure("TEST(A, B) {\n  x = {1};\n}\nTEST(A, C) {\n}\n"), [(1, 3), (4, 2)])
        self.assertEqual(self.measure("constexpr auto f = [](int a) {\n  return a;\n};\n"), [(1, 3)])
        self.assertEqual(self.measure("bool operator()(int a) const override {\n}\n"), [(1, 2)])
        self.assertEqual(self.measure("template <typename T>\nT f(T t) {\n}\n"), [(1, 3)])

    def test_no_function(self):
        self.assertEqual(self.measure("std::vector<int> a{1, 2};\nstruct P {\n  int x = 0;\n  Q q{f(1)};\n};\n"), [])

    def test_shell_and_python(self):
        self.assertEqual(list(sizes.shell_functions("a() { :; }\nb() {\n  x\n}\n")), [(2, 3, "b")])
        self.assertEqual(list(sizes.python_functions("def f():\n    return 1\n")), [(1, 2, "f")])


class SizesOfTree(Tree):
    def test_long_function_and_long_file_are_found(self):
        self.write("src/base/a.cpp", "void f() {\n" + LONG + "\n}\n")
        self.write("src/base/b.cpp", "// line\n" * 801)
        self.write("src/base/c.cpp", "void f() {\n" + LONG.replace("  work();\n", "", 1) + "\n}\n" + "// line\n" * 600)
        self.assertEqual(len(sizes.check(self.root)), 2)


class Rooms(Tree):
    def test_missing_and_long_readme_are_found(self):
        self.write("src/base/a.h", "\n")
        self.write("bench/README.md", "line\n" * 61)
        self.assertEqual(len(rooms.check_readmes(self.root)), 2)
        self.write("src/base/README.md", "line\n" * 60)
        self.write("bench/README.md", "line\n")
        self.assertEqual(rooms.check_readmes(self.root), [])

    def test_path_of_the_machine_is_found(self):
        self.write("docs/a.md", "see /{0}/x\nsee src/{1}/x and ~/{1}/x and /sys/fs/cgroup\n".format("root", "work"))
        self.assertEqual(len(rooms.check_paths(self.root)), 1)


class Links(Tree):
    def test_what_is_not_there_is_found(self):
        self.write("docs/one-read.md", "[a](../src/README.md#x) [b](gone.md) [c](https://x.org/y) `src/README.md` `src/gone.cpp` `run`\n")
        self.write("docs/b.md", "`src/gone.cpp` is not looked at\n")
        self.assertEqual(len(links.check(self.root)), 2)


class Help(Tree):
    def test_commands_without_examples_are_found(self):
        program = self.root / "tool"
        program.write_text('#!/bin/sh\ncase $1 in --help) printf "Subcommands:\\n  run   it\\n  stat  that\\n" ;;\n'
                           'run) echo "Examples:" ;; *) echo nothing ;; esac\n')
        program.chmod(0o755)
        self.assertEqual(programs.check_help(program), ["tool stat --help: has no examples"])


class Summary(unittest.TestCase):
    def test_reasons_of_skips(self):
        self.assertEqual(test_summary.skip_reason("x.cpp:3: Skipped\nneeds a GPU\n\n[  SKIPPED ] A.B"), "needs a GPU")
        self.assertEqual(test_summary.skip_reason("SKIP: no engine\n"), "no engine")
        self.assertTrue(test_summary.ALLOWED_SKIP.search("needs a second engine"))
        self.assertFalse(test_summary.ALLOWED_SKIP.search("no memory cgroup can be made"))

    def test_outcomes_and_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "release-0.xml"
            path.write_text('<testsuite><testcase name="a" status="run"/><testcase name="b" status="notrun"><skipped/>'
                            "<system-out>SKIP: no reason that counts</system-out></testcase></testsuite>")
            outcomes = list(test_summary.outcomes_of_folder(pathlib.Path(folder)))
            self.assertEqual([outcome for outcome, _, _ in outcomes], ["passed", "skipped"])
            self.assertEqual(test_summary.main(folder, strict=False), 0)
            self.assertEqual(test_summary.main(folder, strict=True), 1)
            path.write_text('<testsuite><testcase name="a" status="fail"><failure/></testcase></testsuite>')
            self.assertEqual(test_summary.main(folder, strict=False), 1)
            path.unlink()
            self.assertEqual(test_summary.main(folder, strict=False), 1)


if __name__ == "__main__":
    unittest.main()
