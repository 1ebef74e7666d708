"""Checks the dashboard by Grafana's own types, its links by the console's page, and traces by OpenTelemetry's protocol.

Usage: `python tests/tools/watching.py SLUICE NODE_TOOLS`.

The dashboard must be a `Dashboard` of `@grafana/schema`, and every link of it must lead to a place that the console
has. A collector in Python parses what a gate exports with OpenTelemetry's protobuf definitions: an unknown field, or a
value of another type, is an error.
"""

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import Parse, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from gate import TOKEN, create_store, gate_config, note_address, run_program, start_simulator, wait_until, write_config
from report import Report

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "sluice.json"
PAGE = ROOT / "src" / "console" / "web"
# TypeScript takes no text for a value of an enum.
ENUMS = {
    r'"mode": "absolute"': '"mode": ThresholdsMode.Absolute',
    r'"type": "value"': '"type": MappingType.ValueToText',
    r'"type": "special"': '"type": MappingType.SpecialValue',
}
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
STATIONS = {"admit", "check", "decide", "commit", "record", "forward", "settle"}
WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def check_form(node_tools: Path, folder: Path, report: Report) -> None:
    text = DASHBOARD.read_text(encoding="utf-8")
    for word, value in ENUMS.items():
        text = text.replace(word, value)
    program = (
        'import { type Dashboard, MappingType, ThresholdsMode } from "@grafana/schema";\n'
        f"export const used = [MappingType, ThresholdsMode];\nexport const dashboard: Dashboard = {text};\n"
    )
    (folder / "dashboard.mts").write_text(program, encoding="utf-8")
    (folder / "node_modules").symlink_to(node_tools / "node_modules")
    compiler = node_tools / "node_modules" / ".bin" / "tsc"
    options = ["--noEmit", "--strict", "--module", "nodenext", "--skipLibCheck"]
    done = subprocess.run(
        [compiler, *options, "dashboard.mts"], cwd=folder, capture_output=True, text=True, check=False
    )
    report.check("the dashboard is one of Grafana's types", done.stdout[:2_000] if done.returncode else "")


def words_of(file: str, start: str, end: str) -> set[str]:
    """Returns the names in an object of a page script."""
    _, found, rest = (PAGE / file).read_text(encoding="utf-8").partition(start)
    if not found:
        raise SystemExit(f"{file} of the console's page has no `{start}`; tell {Path(__file__).name} where it is now")
    return set(re.findall(r'"?([A-Za-z-]+)"?(?=[,:]| *$)', rest.partition(end)[0]))


def check_links(report: Report) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = [one["name"] for one in dashboard["templating"]["list"]]
    report.check_that("the dashboard asks for the console's address", "console" in variables, variables)
    places = words_of("app.js", "const views = { ", "};") | {"overview", "queue"}
    filters = words_of("payments.js", "const NOTHING = {", "};")
    statuses = words_of("amounts.js", "const STATUSES = {", "};")
    links = [
        (panel["title"], link["url"])
        for panel in dashboard["panels"]
        for link in panel.get("links", []) + panel.get("fieldConfig", {}).get("defaults", {}).get("links", [])
    ]
    report.check_that("panels lead to the console", len(links) > 10, links)
    for title, url in links:
        address, _, path = url.partition("/#/")
        place, *rest = path.split("/")
        is_right = address == "${console}" and place in places
        if rest:
            is_right &= place == "payments" and len(rest) == 3 and rest[0] == "only" and rest[1] in filters
            is_right &= rest[1:2] != ["status"] or rest[2] in statuses
        report.check_that(f"{title}: its link leads to a place of the console", is_right, url)


class Collector(ThreadingHTTPServer):
    """Takes exported traces."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CollectorCall)
        self.requests: list[tuple[str, str, bytes]] = []


class CollectorCall(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def start_collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, daemon=True)
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


def in_base64(node: Any) -> Any:
    """Returns OTLP's JSON in protobuf's form: the one difference is that OTLP writes ids as hexadecimal digits."""
    if isinstance(node, list):
        return [in_base64(item) for item in node]
    if not isinstance(node, dict):
        return node
    ids = {"traceId": 16, "spanId": 8, "parentSpanId": 8}

    def member(name: str, value: Any) -> Any:
        if name not in ids:
            return in_base64(value)
        raw = bytes.fromhex(value)
        if len(raw) != ids[name]:
            raise ValueError(f"{name} {value}")
        return base64.b64encode(raw).decode()

    return {name: member(name, value) for name, value in node.items()}


def make_calls(gate: str) -> None:
    swap = {
        "requestId": "traced-1",
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": "25.50"},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": WALLET},
    }
    traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "Authorization": TOKEN}
    for method, path, body in (
        ("POST", "/v2/wallets/swaps", json.dumps(swap)),
        ("POST", "/v2/wallets/swaps", "{}"),
        ("GET", "/v2/users", None),
    ):
        connection = HTTPConnection(gate, timeout=20)
        headers = traced if body is None else {**traced, "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        connection.getresponse().read()
        connection.close()


def spans_of(collector: Collector, report: Report) -> list[Span]:
    """Parses every export; checks the resource and the scope of each."""
    spans: list[Span] = []
    for path, kind, body in list(collector.requests):
        report.check_that("an export is OTLP over HTTP", (path, kind) == ("/v1/traces", "application/json"), path)
        try:
            export = Parse(json.dumps(in_base64(json.loads(body))), ExportTraceServiceRequest())
        except (ParseError, ValueError) as error:
            report.check("an export fits OpenTelemetry's definitions", str(error))
            continue
        for resource in export.resource_spans:
            names = {one.key for one in resource.resource.attributes}
            is_named = names >= {"service.name", "service.version", "service.instance.id"}
            report.check_that("a resource names its service", is_named, names)
            for scope in resource.scope_spans:
                spans.extend(scope.spans)
    return spans


def check_spans(spans: list[Span], report: Report) -> None:
    roots = {span.name: span for span in spans if span.kind == Span.SPAN_KIND_SERVER}
    report.check_that("each operation has a span of a server", {"createSwap", "listUsers"} <= roots.keys(), roots)
    if "createSwap" not in roots:
        return
    ids = {span.span_id for span in spans}
    report.check_that("no two spans have one id", len(ids) == len(spans), len(spans))
    for span in spans:
        what = f"span {span.name}"
        report.check_that(f"{what}: its time", 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span)
        report.check_that(f"{what}: the caller's trace", span.trace_id.hex() == TRACE, span)
        is_root = span.kind == Span.SPAN_KIND_SERVER
        has_parent = span.parent_span_id.hex() == PARENT if is_root else span.parent_span_id in ids
        report.check_that(f"{what}: its parent", has_parent, span)
        known = span.status.code in (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)
        report.check_that(f"{what}: its status", known, span)
    found = {span.name for span in spans} - roots.keys()
    report.check_that("each station has a span", found == STATIONS, found ^ STATIONS)
    attributes = {one.key: one.value for one in roots["createSwap"].attributes}
    status = attributes["http.response.status_code"]
    report.check_that("the status is a number", status.WhichOneof("value") == "int_value", status)
    report.check_that("the method has its name", attributes["http.request.method"].string_value == "POST", attributes)


def check_traces(binary: str, report: Report) -> None:
    with (
        start_collector() as collector,
        start_simulator(binary) as simulator,
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
    ):
        telemetry = f'\n[telemetry]\notlp = "http://127.0.0.1:{collector.server_port}"\n'
        config = write_config(Path(folder), gate_config(simulator, "127.0.0.1:9") + telemetry)
        create_store(binary, config)
        addresses: dict[str, str] = {}
        with run_program([binary, "serve", "--config", config]) as program:
            program.wait_for(lambda line: note_address(line, addresses))
            make_calls(addresses["production"])
            wait_until(lambda: b"listUsers" in b"".join(body for _, _, body in collector.requests), 30)
        check_spans(spans_of(collector, report), report)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sluice")
    parser.add_argument("node_tools", type=Path)
    arguments, report = parser.parse_args(), Report()
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        check_form(arguments.node_tools.resolve(), Path(folder), report)
    check_links(report)
    check_traces(arguments.sluice, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
