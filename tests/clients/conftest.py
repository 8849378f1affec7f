"""The addresses under test. Without them nothing runs."""

import os

import pytest

from conversation import StandIn


@pytest.fixture(autouse=True)
def no_proxy_and_no_accounts(monkeypatch):
    """Clients reach the loopback address directly, and take nothing from the machine's own settings."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def stand_in():
    """The stand-in behind the filter."""
    return needs("FILTER_URL", "STAND_IN_URL")


@pytest.fixture
def signing_stand_in():
    """The stand-in behind an Envoy that signs."""
    return needs("SIGNING_URL", "STAND_IN_URL")


def needs(*addresses):
    """The stand-in, if these addresses are known."""
    missing = [name for name in addresses if not os.environ.get(name)]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}: the address of Envoy's listener and of the recording stand-in")
    return StandIn(os.environ["STAND_IN_URL"])
