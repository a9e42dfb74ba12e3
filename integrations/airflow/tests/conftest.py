"""A failure is told when it happens: a later test that hangs must not hide it."""

import pytest


class Tells:
    def __init__(self, terminal):
        self.terminal = terminal

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.terminal.write_line(f"\n==== {report.nodeid} ({report.when})\n{report.longreprtext[-6000:]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(Tells(config.pluginmanager.get_plugin("terminalreporter")))
