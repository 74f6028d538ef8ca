"""Reports as HTML: each one file, which loads nothing and runs nothing that is not its own."""

from modelguard.report.html.confirmation import render as render_confirmation
from modelguard.report.html.readiness import render as render_readiness
from modelguard.report.html.scan import render

__all__ = ["render", "render_confirmation", "render_readiness"]
