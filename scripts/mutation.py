"""The operators of scripts/mutants: pure functions from C++ text to changed text.

A light tokenizer, not a parser: it relies on the tree being formatted by clang-format (a comparison
has blanks on both sides of <, a template argument list has none). Only function bodies are mutated.
Comments, strings, preprocessor lines, template argument lists, declarations of types and members,
using, static_assert and LH_CHECK are left as they are.
"""
import bisect
import collections
import dataclasses
import re

NEGATED = "negated condition"
COMPARISON = "swapped comparison"
OFF_BY_ONE = "off by one"
DROPPED = "dropped statement"
CONSTANT = "changed constant"
ARGUMENTS = "swapped arguments"
LOGIC = "swapped && ||"
SIGN = "swapped + -"
MIN_MAX = "swapped min max"

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
LOGICS = {"&&": "||", "||": "&&"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
UNTOUCHED = re.compile(r"static_assert|using|typedef|friend|LH_CHECK\w*")  # up to the next ;
# Their arguments may stand in either order, or are saved and loaded in the same one.
SYMMETRIC = {"ar", "min", "max", "swap", "gcd", "lcm", "hypot"}
KEYWORDS = set("""alignas alignof auto bool break case catch char class const consteval constexpr
    constinit continue co_await co_return co_yield decltype default delete do double else enum
    explicit extern false float for friend goto if inline int long mutable namespace new noexcept
    nullptr operator private protected public return short signed sizeof static static_assert struct
    switch template this throw true try typedef typename union unsigned using virtual void volatile
    while""".split())

TOKEN = re.compile(r"""
    (?P<blank>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'(?=\w)|[eEpP][-+]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||<<|[-+*/%&|^<>=!]=|.)
""", re.X | re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)


@dataclasses.dataclass
class Token:
    kind: str  # name, number, string or sign
    text: str
    start: int
    end: int
    parent: int = -1     # the open bracket it stands in
    match: int = -1      # of a bracket: the other one
    code: bool = False   # in a function body, and to be mutated


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    line: int       # from 1
    column: int     # from 0, of the first change
    operator: str
    old: str        # the lines changed, blanks squeezed
    new: str
    edits: tuple    # (start, end, text) in the file, in order
    nth: int = 0    # of lines of the same text in the file

    def key(self):
        return "|".join([self.path, str(self.nth), self.operator, str(self.column), self.old])


def squeeze(text):
    return " ".join(text.split())


def tokens_of(text):
    """All tokens; comments and preprocessor lines are none."""
    # Comments first: a line that begins with # inside one, or a string, is rare enough.
    text = PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    found = []
    for m in TOKEN.finditer(text):
        kind = m.lastgroup if m.lastgroup != "mark" else "raw"
        if kind != "blank":
            kind = "string" if kind == "raw" or m.group("raw") else kind
            found.append(Token(kind, m.group(), m.start(), m.end()))
    return found


class Source:
    """The tokens of a file, and which of them are code."""

    def __init__(self, text):
        self.text, self.tokens = text, tokens_of(text)
        self.brackets()
        self.skipped = self.template_lists()
        self.scopes()
        self.untouched()

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def spaced(self, i):
        """Has it blanks on both sides, as binary operators have?"""
        token = self.tokens[i]
        return self.text[token.start - 1].isspace() and self.text[token.end:token.end + 1].isspace()

    def brackets(self):
        stack = []
        for i, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in CLOSING.values() and stack:
                token.match = stack.pop()
                self.tokens[token.match].match = i
            token.parent = stack[-1] if stack else -1
            if token.kind == "sign" and token.text in CLOSING:
                stack.append(i)

    def template_lists(self):
        """Token numbers in <...> of template arguments and parameters; maps first to last, too."""
        self.angles, inside = {}, set()
        for i, token in enumerate(self.tokens):
            head = token.text == "<" and (self.at(i - 1) == "template" or (
                self.tokens[i - 1].kind == "name" and not self.spaced(i)
                and self.tokens[i - 1].end == token.start))
            if not head or i in inside:
                continue
            depth, j = 0, i
            while j < len(self.tokens):
                at = self.at(j)
                depth += (at == "<") - (at == ">") - 2 * (at == ">>")
                if at in (";", "{") and self.tokens[j].parent == token.parent:
                    break
                if depth <= 0:
                    self.angles[i] = j
                    inside.update(range(i, j + 1))
                    break
                j += 1
        return inside

    def opens_body(self, i):
        """Does the { at i, outside of function bodies, begin one?"""
        first = i
        while first > 0 and not (self.at(first - 1) in (";", "{", "}") and
                                 self.tokens[first - 1].parent == self.tokens[i].parent and
                                 not self.is_initialiser(first - 1)):
            first = self.tokens[first - 1].match if self.at(first - 1) in (")", "]", "}") and \
                0 <= self.tokens[first - 1].match < first - 1 else first - 1
        head = [j for j in range(first, i) if j not in self.skipped
                and self.tokens[j].parent == self.tokens[i].parent]
        words = [self.at(j) for j in head]
        if any(w in ("namespace", "class", "struct", "enum", "union") for w in words):
            return False
        return ")" in words and not (words and words[-1] in ("=", "return", ","))

    def is_initialiser(self, i):
        """Is the brace at i one of a value: = {...}, T{...}, after a : or , of a constructor?"""
        opening = min(i, self.tokens[i].match) if self.at(i) == "}" else i
        after = max(i, self.tokens[i].match) + 1
        return self.at(i) != ";" and (self.at(opening - 1) in ("=", ",", "(") or
                                      self.at(after) in (",", ";", "{"))

    def scopes(self):
        """Marks the tokens in function bodies."""
        bodies = []  # for each open brace: is it code?
        for i, token in enumerate(self.tokens):
            if token.text == "}" and token.kind == "sign" and bodies:
                bodies.pop()
            token.code = bool(bodies and bodies[-1]) and i not in self.skipped
            if token.text == "{" and token.kind == "sign":
                if bodies and bodies[-1]:
                    j = i - 1
                    while j > 0 and self.at(j) not in (";", "{", "}", "(", ")"):
                        j -= 1
                    head = [self.at(k) for k in range(j + 1, i) if k not in self.skipped]
                    bodies.append(not set(head) & {"struct", "class", "enum", "union"})
                else:
                    bodies.append(self.opens_body(i))

    def untouched(self):
        for i, token in enumerate(self.tokens):
            if token.kind != "name" or not UNTOUCHED.fullmatch(token.text):
                continue
            for j in range(i, len(self.tokens)):
                self.tokens[j].code = False
                if self.at(j) == ";" and self.tokens[j].parent == token.parent:
                    break

    def body(self, first, last):
        """The text from one token to another."""
        return self.text[self.tokens[first].start:self.tokens[last].end]


def conditions(source):
    """(first, last) tokens of the conditions of if and while; those that declare are none."""
    for i, token in enumerate(source.tokens):
        if not token.code or token.text not in ("if", "while") or source.at(i + 1) != "(":
            continue
        first, last = i + 2, source.tokens[i + 1].match - 1
        for j in range(first, last):
            if source.at(j) == ";" and source.tokens[j].parent == i + 1:
                first = j + 1
        if not any(source.at(j) == "=" and source.tokens[j].parent == i + 1
                   for j in range(first, last)):
            yield first, last


def negated(source):
    for first, last in conditions(source):
        start, end = source.tokens[first].start, source.tokens[last].end
        if source.at(first) == "!" and not any(
                source.at(j) in LOGICS or source.at(j) in COMPARISONS for j in range(first, last)):
            continue  # to drop the ! does it
        yield NEGATED, ((start, start, "!("), (end, end, ")"))
    for i, token in enumerate(source.tokens):
        if token.code and token.text == "!":
            yield NEGATED, ((token.start, token.end, ""),)


def in_text(source, i):
    """Does the statement of token i join strings?"""
    j = i
    while j >= 0 and source.at(j) not in (";", "{", "}"):
        if source.tokens[j].kind == "string" and source.at(j)[0] != "'":
            return True
        j -= 1
    while i < len(source.tokens) and source.at(i) not in (";", "{", "}"):
        if source.tokens[i].kind == "string" and source.at(i)[0] != "'":
            return True
        i += 1
    return False


def swapped_signs(source):
    """Operators that are replaced by another: comparisons, && ||, + -, min max."""
    for i, token in enumerate(source.tokens):
        if not token.code or source.at(i - 1) == "operator":
            continue
        edit = lambda new, t=token: ((t.start, t.end, new),)
        if token.text in COMPARISONS and source.spaced(i):
            yield COMPARISON, edit(COMPARISONS[token.text])
        elif token.text in LOGICS and source.spaced(i):
            yield LOGIC, edit(LOGICS[token.text])
        elif token.text in SIGNS and source.spaced(i) and source.at(i + 1) != "1" \
                and not in_text(source, i):
            yield SIGN, edit(SIGNS[token.text])
        elif token.text in ("min", "max") and source.at(i - 1) == "::" and \
                source.at(i - 2) == "std" and source.at(i + 1) in ("(", "<"):
            yield MIN_MAX, edit("max" if token.text == "min" else "min")


def changed_numbers(source):
    for i, token in enumerate(source.tokens):
        if not token.code:
            continue
        edit = lambda new, t=token: ((t.start, t.end, new),)
        if token.text in ("true", "false"):
            yield CONSTANT, edit("false" if token.text == "true" else "true")
        if token.kind != "number":
            continue
        if re.fullmatch(r"[\d']+", token.text) and not re.match(r"0\d", token.text):
            value = int(token.text.replace("'", ""))
            if value == 1 and source.at(i - 1) in ("+", "-") and source.spaced(i - 1):
                yield OFF_BY_ONE, edit("0")
            else:
                yield OFF_BY_ONE, edit(str(value + 1))
        elif re.match(r"0[xXbB](?!.*[pP])|.*[uUlLzZ]+$", token.text):
            yield OFF_BY_ONE, edit(f"({token.text} + 1)")
        else:
            zero = not re.search(r"[1-9]", re.split(r"[eEpP]", token.text)[0])
            yield CONSTANT, edit("1.0" if zero else f"(2 * {token.text})")


def statement_starts(source):
    """Tokens that begin a statement of a function body."""
    for i, token in enumerate(source.tokens):
        if not token.code or token.text in ("}", "{", ";"):
            continue
        before = source.tokens[i - 1]
        if before.text in (";", "{", "}") and before.kind == "sign":
            opener = source.tokens[token.parent].text if token.parent >= 0 else ""
            if opener == "{":
                yield i
        elif before.text in ("else", "do"):
            yield i
        elif before.text == ")" and before.match > 0 and (
                source.at(before.match - 1) in ("if", "for", "while", "constexpr")):
            yield i
        elif before.text == ":" and any(source.at(j) in ("case", "default")
                                        for j in range(max(0, i - 6), i)):
            yield i


def statement_end(source, i):
    """The ; of the statement that begins at i, or -1."""
    j = i
    while j < len(source.tokens):
        token = source.tokens[j]
        if token.text in CLOSING and token.kind == "sign":
            j = token.match
            if j < 0:
                return -1
        elif token.text in CLOSING.values() and token.kind == "sign":
            return -1
        elif token.text == ";":
            return j
        j += 1
    return -1


def can_be_dropped(source, i, end):
    """A call, an assignment, a step, or a jump without a value; declarations are none."""
    if source.at(i) in ("break", "continue", "return"):
        return end == i + 1
    while source.at(i) in ("++", "--", "*"):
        i += 1
    if source.at(i) == "(":
        i = source.tokens[i].match + 1
    elif source.tokens[i].kind != "name" or source.at(i) in KEYWORDS - {"this"}:
        return False
    else:
        i += 1
    called = source.at(i - 2) in ("++", "--")
    while i < end:
        at = source.at(i)
        if i in source.angles:
            i = source.angles[i] + 1
        elif at in ("(", "["):
            called, i = called or at == "(", source.tokens[i].match + 1
        elif at in ("::", ".", "->"):
            i += 1 + (source.at(i + 1) == "template") + (source.at(i + 1) != "(")
        else:
            return at in ASSIGNMENTS or (called and at in ("<<", "?"))
    return called


def dropped(source):
    for i in statement_starts(source):
        end = statement_end(source, i)
        if end > 0 and can_be_dropped(source, i, end):
            yield DROPPED, ((source.tokens[i].start, source.tokens[end].end, ";"),)


def arguments_of(source, i):
    """(first, last) tokens of the arguments of the call whose ( or { is at i."""
    first, close, found = i + 1, source.tokens[i].match, []
    j = first
    while j <= close:
        if j == close or (source.at(j) == "," and source.tokens[j].parent == i
                          and j not in source.skipped):
            if j > first:
                found.append((first, j - 1))
            first = j + 1
        j += 1
    return found


def is_simple(source, first, last):
    """A name, a member of one, or a call of one without arguments; no end of a range."""
    text = "".join(source.at(j) for j in range(first, last + 1))
    return source.at(first) not in KEYWORDS - {"this"} and re.fullmatch(
        r"[A-Za-z_]\w*(?:\(\))?(?:(?:\.|->|::)[A-Za-z_]\w*(?:\(\))?)*", text) and \
        not re.search(r"\b(?:begin|end)\(\)$", text)


def declared_types(source):
    """Name -> the last words of the types that the file declares it with."""
    found = collections.defaultdict(set)
    for i, token in enumerate(source.tokens):
        if token.kind != "name" or source.at(i + 1) not in (",", ")", ";", "=", "{", ":"):
            continue
        j = i - 1
        while source.at(j) in ("&", "*", "&&", "const"):
            j -= 1
        j = next((a for a, b in source.angles.items() if b == j), j + 1) - 1 \
            if source.at(j) == ">" else j
        if j >= 0 and source.tokens[j].kind == "name" and source.at(j) not in (
                "return", "auto", "case", "goto", "else", "new", "delete"):
            found[token.text].add(source.at(j))
    return found


def types_of(source, first, last):
    """The types of a simple argument, as far as the text tells them."""
    if source.at(last - 1) == "::":
        return {source.at(last - 2)}  # most of them enumerators
    return {"?"} if source.at(last) == ")" else source.types.get(source.at(last), set())


def swapped_arguments(source):
    """Neighbours of one type, or both of types that the file and its header do not tell."""
    for i, token in enumerate(source.tokens):
        if token.text not in ("(", "{") or not token.code or token.match < 0:
            continue
        callee = source.tokens[i - 1]
        if callee.kind != "name" or callee.text in SYMMETRIC or callee.text in KEYWORDS:
            continue
        arguments = arguments_of(source, i)
        for (a, b), (c, d) in zip(arguments, arguments[1:]):
            one, two = source.body(a, b), source.body(c, d)
            first, second = types_of(source, a, b), types_of(source, c, d)
            if is_simple(source, a, b) and is_simple(source, c, d) and one != two and (
                    first & second or not first and not second):
                yield ARGUMENTS, ((source.tokens[a].start, source.tokens[b].end, two),
                                  (source.tokens[c].start, source.tokens[d].end, one))


OPERATORS = (negated, swapped_signs, changed_numbers, dropped, swapped_arguments)


def apply(text, edits):
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def mutants_of(path, text, lines=None, header=""):
    """All mutants of a file, in order; with `lines`, those whose first change is on one of them.
    The header of the same name tells the types of members."""
    source = Source(text)
    source.types = declared_types(Source(header + "\n" + text))
    begins = [0] + [m.end() for m in re.finditer("\n", text)]
    seen, nth = collections.Counter(), []
    for line in text.split("\n"):
        nth.append(seen[squeeze(line)])
        seen[squeeze(line)] += 1
    found = {}
    for operator in OPERATORS:
        for name, edits in operator(source):
            row = bisect.bisect_right(begins, edits[0][0]) - 1
            last = bisect.bisect_right(begins, edits[-1][1]) - 1
            if lines is not None and row + 1 not in lines:
                continue
            start = begins[row]
            end = begins[last + 1] if last + 1 < len(begins) else len(text)
            old = text[start:end]
            new = apply(old, [(a - start, b - start, t) for a, b, t in edits])
            column = edits[0][0] - start - (len(old) - len(old.lstrip()))
            found.setdefault(squeeze(new) + f"@{row}", Mutant(
                path, row + 1, column, name, squeeze(old), squeeze(new), tuple(edits), nth[row]))
    return sorted(found.values(), key=lambda m: (m.line, m.column, m.operator))
