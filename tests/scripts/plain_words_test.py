"""scripts/plain-words on small files: what is found, what is not, and the limits."""
import os
import unittest

from scripts_case import ScriptCase

PLAIN = "The server sends the model to each worker.\n"
PRIVATE = "The server sends nobody the model.\n"


class PlainWords(ScriptCase):
    def check(self, status, *options, said=(), **files):
        for name, text in files.items():
            self.write(name.replace("_", "."), text)
        paths = [os.path.join(self.root, name.replace("_", ".")) for name in files]
        return self.expect("plain-words", status, *said, arguments=[*options, *paths])

    def test_prose_of_pages_is_read(self):
        self.check(0, a_md=PLAIN + "\n    nobody\n\n| nobody |\n\n```\nnobody\n```\n",
                   said=["0 findings in 8 words"])
        self.check(0, a_md=PLAIN + PRIVATE, said=["a.md:2: person: The server sends nobody"])
        self.check(0, "--hints", a_md="Of several plans the last is tried.\n",
                   said=["a.md:1: of-opening", "[begin with the subject"])

    def test_comments_and_messages_of_code_are_read(self):
        self.check(0, a_cpp='int nobody = 1;  // it is told\nauto s = "nobody sends us this";\n',
                   said=["a.cpp:1: told", "a.cpp:2: person", "2 findings"])
        self.check(0, a_cpp="// nobody sends  plain-words: off\n", said=["0 findings"])

    def test_limits_of_a_file_and_of_all_together(self):
        files = {"a_md": PLAIN * 40, "b_md": PRIVATE}  # a small file counts as 250 words
        self.check(0, "--max", "4", **files)
        self.check(1, "--max", "3.9", **files)
        self.check(0, "--max-total", "3.1", said=["3.1        1     326"], **files)
        self.check(1, "--max-total", "3", said=["3.1 findings per 1,000 words, at most 3"], **files)

    def test_the_worst_file_is_first_in_the_summary(self):
        said = self.check(0, "--summary", a_md=PLAIN, b_md=PRIVATE, said=["b.md (person 1)"])
        self.assertLess(said.index("b.md"), said.index("a.md"))

    def test_a_file_that_is_not_there_is_bad_usage(self):
        self.expect("plain-words", 2, "none.md", arguments=["none.md"])


if __name__ == "__main__":
    unittest.main()
