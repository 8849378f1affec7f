"""What the rules of all formats share.

A format is a module with `malformed`, the check of the schema that comes first and alone, and `RULES`, functions
that take a `Request` and yield one message in the provider's style for each place where the body breaks them.
A rule's name is its function's name with hyphens. In their doc comments, names such as `owner/repo#1` are public
threads that quote the provider's answer; "schema" means the provider's published types.
"""

from typing import NamedTuple


class Broken(NamedTuple):
    """One rule of the provider that a body breaks."""

    rule: str
    message: str

    def __str__(self):
        return f"{self.rule}: {self.message}"


class Request(NamedTuple):
    """A request as the rules see it; the model stands in the path or in the body."""

    path: str
    model: str
    body: dict


def name_of(rule):
    """The stable name of a rule."""
    return rule.__name__.replace("_", "-")


def apply(rules, request):
    """Every place where the body breaks one of the rules."""
    return [Broken(name_of(rule), message) for rule in rules for message in rule(request)]


def dicts(value):
    """The objects of an array; nothing if it is no array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def not_objects(value, name):
    """Messages for everything that keeps `value` from being an array of objects."""
    if not isinstance(value, list):
        yield f"Invalid type for '{name}': expected an array of objects, got {type_name(value)}."
        return
    for at, item in enumerate(value):
        if not isinstance(item, dict):
            yield f"Invalid type for '{name}[{at}]': expected an object, got {type_name(item)}."


def wrong_types(item, name, types):
    """Messages for the keys of an object that are missing or hold another type than `types` says."""
    for key, kind in types.items():
        if not isinstance(item.get(key), kind):
            yield f"Invalid type for '{name}.{key}': got {type_name(item.get(key))}."


def type_name(value):
    """JSON's own name for the type of a value."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def blank(text):
    """Whether a text holds nothing but white space."""
    return not text.strip()


def quoted(ids):
    """A list of ids for a message."""
    return ", ".join(str(i) for i in ids)
