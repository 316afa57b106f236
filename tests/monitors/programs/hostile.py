"""Programs that try to get out, to hang, or to fill the memory: a corpus by kind."""

from __future__ import annotations

_ROOTS = ("()", "[]", "{}", '""', "1", "None", "user", "deny", "CheckAccess", "log")
_WALKS = (
    ".__class__", ".__class__.__base__.__subclasses__()", ".__init__.__globals__",
    ".__class__.__mro__[1]", '.__getattribute__("x")', ".__dict__", ".__doc__",
)  # fmt: skip
_NAMES = (
    "__import__", "eval", "exec", "compile", "open", "globals", "locals", "vars", "dir",
    "getattr", "setattr", "delattr", "type", "object", "super", "input", "print",
    "breakpoint", "memoryview", "bytearray", "help", "exit", "quit", "id", "hash",
    "map", "filter", "iter", "next", "range", "sorted", "str", "repr", "format", "len",
    "int",
)  # fmt: skip
_FORMS = (
    "import os", "from os import system", "import os as deny", "def f(): pass",
    "async def f(): pass", "class A: pass", "lambda: 1", "x = lambda: 1",
    "x = (lambda: 1)()", "return 1", "yield 1", "x = yield", "raise Exception",
    "try:\n    pass\nexcept: pass", "with log: pass", "while True: pass", "del user",
    "global user", "nonlocal user", "assert False", "x: int = 1", "x += 1", "x = y = 1",
    "x = [i for i in log]", "x = {i for i in log}", "x = {i: i for i in log}",
    "x = (i for i in log)", "x = (y := 1)", "x = f'{user}'", "x = f'{user.__class__}'",
    "x = '{0.__class__}'.format(user)", "x = '%s' % user", "x = 1 if user else 2",
    "x = await log", "match log:\n    case _: pass", "for x in log:\n    break",
    "for x in log:\n    continue", "for x in log:\n    pass\nelse:\n    pass",
    "x = user[0:1]", "x = [*log]", "x = {**user}", "CheckAccess(*log)",
    "CheckAccess(**user)", "user['a'] = 1", "user.role = 'x'", "x[0] = 1",
    "[x, y] = log", "x, *y = log", "(x, (y, z)) = log", "1", "'text'", "user",
    "x = b'a'", "x = ...", "x = 1j", "x = {1, 2}", "x = ~1", "x = +1", "x = --1",
    "x = 1 @ 2", "x = 1 << 9", "x = log or deny", "x = deny", "deny = 1", "ask = deny",
    "Same = 1", "deny(log)", "deny(user['role'])", "deny('a' 'b' + log)", "deny()",
    "x = deny('a')", "deny('a')('b')", "CheckAccess(1)(2)", "log()", "user['f']()",
    "(deny)", "deny['a']", "x = CheckAccess", "@deny\ndef f(): pass", "x = print('a')",
    "if deny: pass", "x = not deny", "x = [deny]", "x = {'a': CheckAccess}",
    "for deny in log: pass", "x = __name__", "x = __builtins__", "x = _", "x = self",
)  # fmt: skip
_LOOK_ALIKES = (
    "ｄeny('a')", "ｅval('1')", "x = ｕser", "dеny('a')", "x = usеr", "ﬁ = 1", "x = ªb",
    "deny\u200b('a')", "x = 1 # \u202e", "x = '\u202e'", "x\u00a0= 1", "x = ١",
    "x = 1\u2028deny('a')", "𝐝𝐞𝐧𝐲('a')", "x = '\x00'", "x = 1\x0c", "Sаme('a', 'b')",
)  # fmt: skip
_BOMBS = (
    "x = " + "9" * 5_000, "x = 0x" + "f" * 60_000, "x = 1e999", "x = -1e999",
    "x = 9 ** 9 ** 9", "x = 'a' * 10 ** 9", "x = [0] * 10 ** 9", "x = 1 << 10 ** 9",
    "x = " + "(" * 90 + ")" * 90, "x = " + "(" * 5_000, "x = " + "[" * 199 + "]" * 199,
    "x = " + "{'a': " * 150 + "1" + "}" * 150, "x = " + "not " * 7_900 + "1",
    "x = " + "-" * 7_900 + "1", "x = " + "~" * 7_900 + "1", "x = log" + "[0]" * 1_900,
    "x = log" + ".a" * 3_900, "x = log" + "()" * 2_600, "x = " + "1 + " * 3_900 + "1",
    "x = " + "1 < " * 3_900 + "1", "x = " + "True and " * 3_900 + "True",
    "x = " + "1 if 1 else " * 1_900 + "1", "x = " + "lambda: " * 3_900 + "1",
    "x = 2" + " ** 2" * 2_600, "x = 1;" * 20_000, "#" * 100_000, "x = '" + "a" * 70_000,
    "x = '''" * 7_900, "\\\n" * 30_000 + "x = 1", "\n" * 63_000, " " * 63_000 + "x = 1",
    "\t" * 20_000 + "x", "if True:\n" * 1_000, "(" * 63_999, "\u00e9" * 63_000,
    "".join(f"{' ' * i}if True:\n" for i in range(120)) + " " * 120 + "pass",
    "if True:\n    pass\n" + "elif True:\n    pass\n" * 1_500,
    "x = [" + "[1]," * 1_900 + "]", "x = [" + "1," * 3_990 + "]",
    "".join(f"{' ' * i}for x{i} in {list(range(9))}:\n" for i in range(9))
    + " " * 9 + "pass",
    "".join(f"{' ' * i}for x in frame['big']:\n" for i in range(6)) + " " * 6 + "pass",
    "for x in frame['big']:\n    if x in frame['big']:\n        pass",
    "for x in frame['big']:\n    if frame['text'] in frame['text']:\n        pass",
    "for x in frame['big']:\n    if frame['text'] == frame['other']:\n        pass",
    "for x in frame['big']:\n    if frame['text'] in [frame['other']] :\n        pass",
    "a = [1]\n" + "a = [a, a]\n" * 200,
    "a = {'a': 1}\n" + "a = {'a': a, 'b': a}\n" * 99,
    "a = [1]\n" + "a = [a]\n" * 900 + "x = Count(a)",
    "for x in frame['big']:\n    y = Count(frame['big'])",
    "for x in frame['big']:\n    y = Same(frame['text'], frame['other'])",
    "for x in frame['big']:\n    y = Asks(frame['text'], 'book', 'flight')",
    "for x in frame['big']:\n    y = Asks(frame['words'], 'book', 'flight')",
    "x = Asks(frame['words'], 'book', 'flight')\nCount(1)",
    "x = CheckAccess(frame['table'], frame['spelt'])\nCount(1)",
    "x = CheckRules(frame['rules'], frame['spelt'])\nCount(1)",
    "x = MayUse(frame['uses'], 'r', 'm', frame['acts'])\nCount(1)",
    "for x in frame['big']:\n    deny('again', frame['big'])",
    "for x in frame['big']:\n    deny('again')",
    "deny('large', frame['big'])", "deny('deep', frame['deep'])", "x = frame['deep']\n"
    "y = Count(frame['deep'])", "x = Count(frame['odd'])", "if frame['odd']:\n    pass",
    "if frame['odd'] == 1:\n    pass", "if frame['odd'] < 1:\n    pass",
    "if frame['nan'] < 1:\n    pass", "for x in frame['odd']:\n    pass",
    "x = CheckAccess(frame['odd'], frame['odd'])", "x = frame['evil']['a']",
    "if 'a' in frame['evil']:\n    pass", "for x in frame['evil']:\n    pass",
)  # fmt: skip

CORPUS: tuple[str, ...] = (
    *(f"x = {root}{walk}" for root in _ROOTS for walk in _WALKS[:3]),
    *(f"x = log{walk}" for walk in _WALKS[3:]),
    *(f"x = {name}('1')" for name in _NAMES),
    *_FORMS,
    *_LOOK_ALIKES,
    *_BOMBS,
)
"""All of them: none may pass for a program that ran to its end and let an action pass,
reach anything, take long or take much."""

HARMLESS = frozenset(
    (
        "x = " + "(" * 90 + ")" * 90,
        "x = [" + "[1]," * 1_900 + "]",
        "x = [" + "1," * 3_990 + "]",
        "x = " + "1 < " * 3_900 + "1",
        "x = " + "True and " * 3_900 + "True",
    )
)
"""Large and nothing worse: it does not matter whether they run."""
