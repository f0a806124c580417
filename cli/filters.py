"""Options of commands that search: one for each filter that ``schemas.filters`` spells."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_origin

import typer
from pydantic import ValidationError

from schemas.errors import UserError
from schemas.filters import Filters, Option

_OPTIONS = {
    name: option for name, field in Filters.model_fields.items() for option in field.metadata if isinstance(option, Option)
}


def takes_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options, which ``command`` receives as its keyword ``filters``."""

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        texts_by_filter = {name: arguments.pop(name) for name in _OPTIONS}
        command(**arguments, filters=_filters(texts_by_filter))

    parameters = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "filters"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, option))
        for name, option in _OPTIONS.items()
    ]
    with_options.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*parameters, *options)}
    return with_options


def _annotation(name: str, option: Option) -> Any:
    kind: Any = Filters.model_fields[name].annotation
    text: Any = bool if kind == bool | None else list[str] if get_origin(kind) is list else str
    return Annotated[text | None, typer.Option(*option.spellings, help=option.help, rich_help_panel="Filters")]


def _filters(texts_by_filter: Mapping[str, Any]) -> Filters:
    """Return filters of options.

    Raises:
        UserError: An option can't be read; there are too many of one, or one is too long.
    """
    fields: dict[str, Any] = {}
    for name, texts in texts_by_filter.items():
        if isinstance(texts, list):
            fields[name] = [_parsed(name, text) for text in texts]
        elif texts is not None:
            fields[name] = texts if isinstance(texts, bool) else _parsed(name, texts)
    try:
        return Filters(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"filters: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _parsed(name: str, text: str) -> Any:
    option = _OPTIONS[name]
    try:
        return option.parse(text)
    except ValueError as error:
        raise UserError(f"{option.spellings[0]} {text}: {error}") from None
