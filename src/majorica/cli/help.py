"""Help pages without the types of switches and the braces of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    _Base = TyperCommand
else:
    _Base = object


class _Plain(_Base):
    """What commands and the program itself change of the parser's own pages."""

    def get_params(self, ctx: Any) -> Any:
        """All options; a switch takes no value, so none is shown."""
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the first line: INPUT..., not {INPUT}...."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Command(_Plain, TyperCommand):
    """One command."""


class Group(_Plain, TyperGroup):
    """The program."""
