"""Facts as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from inspect import signature


class Written:
    """An estimator that prints as it is written, with the parameters that are not the defaults.

    scikit-learn's own repr spells out a kernel inside an estimator by its parameters, `Sum(left=…, right=…)`.
    """

    def __repr__(self) -> str:
        defaults = signature(type(self)).parameters
        given: dict[str, object] = self.get_params(deep=False)  # type: ignore[attr-defined]
        changed = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(defaults[name].default)]
        return f"{type(self).__name__}({', '.join(changed)})"


def shortened(text: str) -> str:
    """Write the numbers of a text with four digits.

    >>> shortened("RBF([240.25037477722543, 96.03, 1e-05])")
    'RBF([240.3, 96.03, 1e-05])'
    """
    return re.sub(r"\d+\.\d{3,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


class Display:
    """A record that prints as a headline and a line for each fact, and as a table in a notebook."""

    @abstractmethod
    def _facts(self) -> tuple[str, Mapping[str, str]]:
        """Return the headline, and facts by their names."""

    def __repr__(self) -> str:
        headline, facts = self._facts()
        return "\n".join([headline, *(f"  {name}: {fact}" for name, fact in facts.items())])

    def _repr_html_(self) -> str:
        headline, facts = self._facts()
        cell = 'style="text-align: left; white-space: pre-wrap"'
        rows = "".join(f"<tr><th {cell}>{escape(n)}</th><td {cell}>{escape(f)}</td></tr>" for n, f in facts.items())
        return f"<table><caption {cell}>{escape(headline)}</caption><tbody>{rows}</tbody></table>"


@dataclass(frozen=True, repr=False)
class Summary(Display):
    """Description of a model in a table: what was chosen, how certain that is, and how long it took.

    Attributes
    ----------
    headline : str
    facts : mapping of str to str
    """

    headline: str
    facts: Mapping[str, str]

    def _facts(self) -> tuple[str, Mapping[str, str]]:
        return self.headline, self.facts
