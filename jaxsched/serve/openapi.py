"""The description of a service: OpenAPI, and a page of it that needs no network."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from jaxsched import __version__
from jaxsched.serve.decisions import MOST_CLUSTERS, Decider

ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}
PATHS = {
    "/policies": ("get", "the policies that are served"),
    "/healthz": ("get", "whether the service is up; needs no token"),
    "/metrics": ("get", "counters in Prometheus' text format"),
    "/reload": ("post", "load all policies again; requests under way end as they began"),
    "/openapi.json": ("get", "this description"),
}


def document(policies: Mapping[str, Decider]) -> dict[str, Any]:
    """The OpenAPI document of a service."""
    systems = {decider.system.name: decider for decider in policies.values()}
    schemas = {"error": ERROR}
    for name, decider in systems.items():
        schemas[f"{name}_cluster"] = dict(decider.reader.schema)
        schemas[f"{name}_decision"] = dict(decider.reader.answer_schema)
    clusters = _any_of([f"{name}_cluster" for name in systems])
    decisions = _any_of([f"{name}_decision" for name in systems])
    body = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "policy": {"enum": list(policies), "description": "may be left out if there is one"},
            "cluster": clusters,
            "clusters": {"type": "array", "maxItems": MOST_CLUSTERS, "items": clusters},
        },
    }
    answer = {
        "type": "object",
        "properties": {
            "policy": {"type": "string"},
            "decision": decisions,
            "decisions": {"type": "array", "items": decisions},
        },
    }
    examples = {
        name: {"value": {"policy": name, "cluster": decider.example}}
        for name, decider in policies.items()
    }
    decide = {
        "summary": "what a policy decides for one cluster or several",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body, "examples": examples}},
        },
        "responses": {"200": _response("the decision", answer), **_failures(422, 413, 401)},
    }
    others = {
        path: {method: {"summary": words, "responses": {"200": {"description": words}}}}
        for path, (method, words) in PATHS.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "jaxsched", "version": __version__},
        "paths": {"/decide": {"post": decide}, **others},
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def page(described: Mapping[str, Any], policies: Mapping[str, Decider]) -> str:
    """The description for people."""
    parts = [STYLE, "<h1>jaxsched</h1><p>Decisions of scheduling policies.</p>"]
    parts.append("<table><tr><th>policy</th><th>system</th><th>what</th></tr>")
    for name, decider in policies.items():
        facts = decider.facts
        cells = (name, facts["system"], f"{facts['policy']}, {facts['kind']}")
        parts.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    parts.append("</table>")
    for path, methods in described["paths"].items():
        for method, entry in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(entry['summary'])}</p>")
    parts.append("<h2>Examples</h2>")
    for name, decider in policies.items():
        example = json.dumps({"policy": name, "cluster": decider.example}, indent=1)
        parts.append(f"<h3>{escape(name)}</h3><pre>{escape(example)}</pre>")
    parts.append("<h2>Clusters and decisions</h2>")
    for name, schema in described["components"]["schemas"].items():
        text = escape(json.dumps(schema, indent=1))
        parts.append(f"<details><summary>{escape(name)}</summary><pre>{text}</pre></details>")
    return "\n".join(parts)


STYLE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>jaxsched</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 1rem; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: 6px; }
h2 { margin-top: 2rem; font-size: 1.1rem; }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; }
</style>"""


def _any_of(names: list[str]) -> dict[str, Any]:
    found = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _response(words: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _failures(*statuses: int) -> dict[str, Any]:
    known = {
        401: "no token, or a wrong one",
        413: "the body is too long",
        422: "something in the body is not as described; one line says what",
    }
    error = {"$ref": "#/components/schemas/error"}
    return {str(status): _response(known[status], error) for status in statuses}
