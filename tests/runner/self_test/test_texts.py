import re
import shutil
import unittest

from checks import facts, formatting, phrases, protos, shell, spelling, tracked
from self_test.planted import Planted


class ProtosTest(Planted):
    def test_fields_without_a_comment_are_found(self):
        self.append("proto/onecopy/v1/planted.proto", """
message A {
  // Described.
  string a = 1;
  repeated uint64 b = 2;
  message B {
    map<string, string> c = 1;
    string d = 2;  // described
  }
  oneof e {
    B f = 4;
  }
}
enum C {
  D = 0;
}
""")
        self.assertEqual(
            [finding.split(": ")[1] for finding in protos.run(self.context()) if "planted.proto" in finding],
            ["A.b has no comment", "A.B.c has no comment", "A.f has no comment"])


class TrackedTest(Planted):
    def test_paths_of_a_machine_are_found(self):
        for written in ("/wo_rk/x", "/ro_ot/x", "/ho_me/jane/x", "/var/tm_p/x", "../sha_red/x"):
            path = written.replace("_", "")
            with self.subTest(path):
                self.append("README.planted", f"see {path}\n")
                self.assert_found(tracked.run(self.context()), "README.planted", path[:5])
                (self.root / "README.planted").unlink()

    def test_places_that_every_system_has_are_not(self):
        self.append("README.planted", "/usr/bin /etc/onecopy /run/onecopy /tmp/x a/work/b net/root\n")
        self.assertNotIn("README.planted", "".join(tracked.run(self.context())))


class PhrasesTest(Planted):
    def test_phrases_that_are_read_twice_are_found(self):
        for name, text, words in (
                ("daemon/plan/planted.cc", 'const char* a = "it is "\n    "no path";\n', "is no"),
                ("daemon/plan/planted.cc", 'const char* a = R"(for\nwhoever asks)";\n', "whoever"),
                ("daemon/plan/planted.cc", "char q = '\"'; auto a = \"try anew\";\n", "anew"),
                ("client/python/onecopy/planted.py", 'A = f"{1} that nobody has"\n', "nobody"),
                ("values/onecopy/planted.h", "// Written anew.\n", "anew"),
                ("docs/planted.md", "All is well, but for this.\n", "but for")):
            with self.subTest(text):
                self.append(name, text)
                self.assert_found(phrases.run(self.context()), name, words)
                (self.root / name).unlink()

    def test_plain_ones_are_not(self):
        self.append("daemon/plan/planted.cc", """// it is no path, to nobody
const char* a = "there is no path, and it is no longer than one";  // "is no"
""")
        self.append("docs/planted.md", "There is no path. The value is `nobody`.\n")
        self.assertNotIn("planted", "".join(phrases.run(self.context())))


class FactsTest(Planted):
    def change(self, name, before, after):
        text = (self.root / name).read_text()
        self.assertIn(before, text)
        (self.root / name).write_text(text.replace(before, after, 1))

    def test_what_a_document_has_otherwise_than_the_code_is_found(self):
        rate = re.search(r"\| (\d+ GB/s) \|", (self.root / "README.md").read_text()).group(1)
        for name, before, after, words in (
                ("docs/operate.md", "| info | `connected peer=", "| warning | `connected peer=", "\"connected\" (info)"),
                ("docs/operate.md", "`gRPC failed why=", "`gRPC has failed why=", "\"gRPC has failed\""),
                ("docs/operate.md", "| `rings` | 256 |", "| `rings` | 255 |", "the limit rings"),
                ("docs/operate.md", "| peers | 4,096 |", "| peers | 4,097 |", "| peers | 4,096 |"),
                ("docs/api.md", "| `NO_SESSION` |", "| `NO_SESSIONS` |", "NO_SESSIONS"),
                ("docs/concepts.md", "| 1 | `peer-direct` |", "| 1 | `peer-straight` |", "its ladder is"),
                ("docs/status.md", " findings,", "9 findings,", "and the code has"),
                ("docs/setup.md", " targets", "9 targets", "and the code has"),
                ("README.md", "| `tcp-staged` | 5 |", "| `tcp-staged` | 4 |", "has 4 copies"),
                ("README.md", f" {rate} |", " 1234 GB/s |", "does not have 1234 GB/s"),
                ("docs/speed.md", f"| {rate} |", "| 1234 GB/s |", "its table is not that of its rows")):
            with self.subTest(after):
                self.change(name, before, after)
                self.assertIn(words, "\n".join(facts.run(self.context())))
                self.change(name, after, before)
                self.assertEqual(facts.run(self.context()), [])


class ToolsTest(Planted):
    @unittest.skipUnless(shutil.which("clang-format-14"), "no clang-format-14")
    def test_unformatted_code_is_found(self):
        self.append("daemon/plan/planted.h", "int  a ;\n")
        self.assert_found(formatting.run(self.context()), "daemon/plan/planted.h", "should be clang-formatted")

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck")
    def test_a_careless_script_is_found(self):
        self.append("deploy/planted", "#!/bin/bash\nrm -r $1\n")
        self.assert_found(shell.run(self.context()), "deploy/planted", "SC2086")

    @unittest.skipUnless(shutil.which("codespell"), "no codespell")
    def test_a_misspelling_is_found(self):
        self.append("README.planted", "the tran" "fer\n")
        self.assertIn("README.planted:1: tran" "fer", "\n".join(spelling.run(self.context())))
