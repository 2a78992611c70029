# SPDX-License-Identifier: MIT
"""Conditional expressions of C: which ?: is an operand of another, by tokens, so that strings, characters, comments, labels
and case ranges say nothing."""
import re

TOKEN = re.compile(r"""
    (?P<space> \s+ | \\\n | //[^\n]* | /\*.*?\*/ )
  | (?P<literal> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<word> [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|[\w.])* )
  | (?P<compare> == | != | <= | >= )
  | (?P<assign> <<= | >>= | [-+*/%&|^]?= )
  | (?P<other> . )
""", re.X | re.S)
DIRECTIVE = re.compile(r"(?m)^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*")
CLOSES = {"(": ")", "[": "]", "{": "}"}
CONTROL = {"if", "while", "for", "switch"}  # what follows their parentheses is a statement


def tokens(text):
    """(kind, text, line) of each, without white space and comments."""
    line = 1
    for m in TOKEN.finditer(text):
        if m.lastgroup != "space":
            yield m.lastgroup, m[0], line
        line += m[0].count("\n")


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def nested(text):
    """The lines of conditional expressions that have another in an operand, however deep in parentheses."""
    # Comments may hold what looks like a directive, and a directive may end with a comment.
    text = "".join(blank(m[0]) if m.lastgroup == "space" and m[0].startswith("/") else m[0] for m in TOKEN.finditer(text))
    found = group(list(tokens(DIRECTIVE.sub(lambda m: blank(m[0]), text))), 0, None)[1]
    for m in DIRECTIVE.finditer(text):
        if "?" in m[0]:
            first = text.count("\n", 0, m.start())
            found |= {first + n for n in group(list(tokens(m[0].replace("#", " ", 1))), 0, None)[1]}
    return sorted(found)


def group(all_tokens, at, close):
    """(place after the group, lines of nested ones in it, has it a conditional at all) of the tokens up to its bracket."""
    found, some = set(), False
    marks, inner, control = [], False, False  # of one expression: lines of its own ?; has a group in it any?
    while at < len(all_tokens) and not (all_tokens[at][0] == "other" and all_tokens[at][1] == close):
        kind, text, line = all_tokens[at]
        ends = kind == "assign" or (kind == "other" and text in ";,")
        at += 1
        if kind == "other" and text in CLOSES:
            at, lines, has = group(all_tokens, at, CLOSES[text])
            found |= lines
            some |= has
            # A block, or the condition of a statement, is no operand; a compound literal is.
            ends = (text == "{" and not marks) or (text == "(" and control)
            inner |= has and not ends
        elif kind == "other" and text == "?":
            marks.append(line)
            some = True
        control = kind == "word" and text in CONTROL
        if ends:
            found |= outer(marks, inner)
            marks, inner = [], False
    return at + 1, found | outer(marks, inner), some


def outer(marks, inner):
    return {marks[0]} if len(marks) > 1 or (marks and inner) else set()
