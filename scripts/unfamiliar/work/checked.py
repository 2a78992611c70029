# SPDX-License-Identifier: MIT
"""What mypy is tried with: some types are wrong, and it says which."""
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def text(x: int) -> str:
    return x


class Tree(Generic[T]):
    def __init__(self, value: T, *below: "Tree[T]") -> None:
        self.value, self.below = value, below

    def __iter__(self) -> Iterator[T]:
        yield self.value
        for t in self.below:
            yield from t


for s in Tree(1, Tree(2)):
    s.upper()
Tree("a", Tree("b")).height
