"""What is common to all sites: reports, results database, logging of metrics, and the modes.

To be named before a site's own file, which has the last word, on where reports and database lie too (template.py):
``RFM_CONFIG_FILES=/this/repository/config/common.py:/site/settings.py``. ci/run does that by itself.
"""

from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
# In a wheel this file lies in the package, into which nothing is written: its place is then where ReFrame runs, as in
# containercheck.job.contract. That cannot be imported here, nor is this the current directory while ReFrame reads it.
_REPORTS = Path("reports") if (_ROOT.parent / "job" / "contract.py").exists() else _ROOT / "reports"

site_configuration = {
    # A look of ReFrame's at its jobs takes 60 ms of a core, ten times a second by default after each event: too much
    # beside a measurement.
    "general": [{"report_file": str(_REPORTS / "run-report.json"), "poll_rate_max": 1}],
    "storage": [{"enable": True, "backend": "sqlite", "sqlite_db_file": str(_REPORTS / "results.db")}],
    # A record for each metric: the tests of one class need not report the same ones.
    "logging": [{"perflog_multiline": True}],
    "modes": [
        {"name": "full", "options": ["--setvar=full=yes"]},
        # A centre's daily run, with the table of ReFrame.
        {"name": "production", "options": ["--performance-report"]},
        # After maintenance: start-up, messages, processor and memory, in minutes.
        {"name": "maintenance", "options": ["--tag=smoke", "--performance-report"]},
    ],
}
