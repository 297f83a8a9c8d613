"""The page at `/`: whom one has reached, whether it is ready, and what else there is to see."""

from collections.abc import Sequence
from html import escape

from stentor.gateways.http.node import ServedNode
from stentor.version import __version__

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the page needs nothing else, whatever a name may hold

_LINKS = {
    "/metrics": "what it counts, for Prometheus",
    "/livez": "whether the process runs",
    "/readyz": "whether it is ready, and what it waits for if not",
    "/status": "who is connected, what is stored and who lags behind, as JSON",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 1.5rem 0 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.ready { color: light-dark(#1a7f37, #3fb950); }
.waiting { color: light-dark(#b35900, #e3a03c); }
table { margin: 2rem 0; border-spacing: 0; }
td { padding: .25rem 1.5rem .25rem 0; vertical-align: top; }
footer { opacity: .7; font-size: .875rem; }
"""


def page(nodes: Sequence[ServedNode]) -> str:
    """Return the page as HTML."""
    title = escape(", ".join(node.name for node in nodes))
    rows = "".join(f'<tr><td><a href="{path}">{path}</a></td><td>{text}</td></tr>\n' for path, text in _LINKS.items())
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title} – Stentor</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n{''.join(map(_node, nodes))}<table>\n{rows}</table>\n"
        f"<footer>Stentor {escape(__version__)}</footer>\n</body>\n</html>\n"
    )


def _node(node: ServedNode) -> str:
    reasons = node.waits_for()
    state = '<span class="waiting">not ready</span>' if reasons else '<span class="ready">ready</span>'
    waiting = "".join(f'<p class="waiting">{escape(reason)}</p>\n' for reason in reasons)
    return f"<h1>{escape(node.name)}</h1>\n<p>{escape(node.role)}, {state}</p>\n{waiting}"
