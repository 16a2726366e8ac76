"""Conversion to OpenAPI version 2, which has no alternatives and declares the body as a parameter."""

from __future__ import annotations

from typing import Any, Final

from kubesim.openapi.operations import MEDIA
from kubesim.registry.registry import Object

METHODS: Final = ("get", "put", "post", "delete", "patch")
UNKNOWN: Final = ("anyOf", "oneOf", "not", "nullable")  # words that version 2 does not have


def to_swagger(info: Object, paths: Object, schemas: Object) -> Object:
    """The equivalent document of version 2, as far as possible."""
    return {
        "swagger": "2.0",
        "info": info,
        "paths": {path: _item(item) for path, item in paths.items()},
        "definitions": {name: _schema(schema) for name, schema in schemas.items()},
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    }


def _item(item: Object) -> Object:
    shown: Object = {method: _operation(item[method]) for method in METHODS if method in item}
    if "parameters" in item:
        shown["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return shown


def _operation(operation: Object) -> Object:
    body = operation.get("requestBody")
    shown = {word: value for word, value in operation.items() if word != "requestBody"}
    shown["parameters"] = [_parameter(parameter) for parameter in operation["parameters"]]
    if body:
        media = list(body["content"])
        schema = body["content"][media[-1]]["schema"]
        shown["consumes"] = media
        shown["parameters"].append(
            {"name": "body", "in": "body", "required": bool(body.get("required")), "schema": _schema(schema)}
        )
    shown["produces"] = list(MEDIA)
    shown["responses"] = {code: _response(response) for code, response in operation["responses"].items()}
    return shown


def _parameter(parameter: Object) -> Object:
    shown = {word: value for word, value in parameter.items() if word != "schema"}
    return {**shown, **parameter["schema"]}


def _response(response: Object) -> Object:
    schema = next(iter(response["content"].values()))["schema"]
    return {"description": response["description"], "schema": _schema(schema)}


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/components/schemas/", "#/definitions/")}
    shown: Object = {}
    for word, value in schema.items():
        if word == "properties":
            shown[word] = {name: _schema(part) for name, part in value.items()}
        elif word in {"items", "additionalProperties"}:
            shown[word] = _schema(value)
        elif word == "allOf" and len(value) == 1 and "$ref" in value[0]:
            shown |= _schema(value[0])
        elif word not in UNKNOWN and word != "allOf":
            shown[word] = value
    return shown
