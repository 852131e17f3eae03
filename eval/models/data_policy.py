"""Where pictures may be sent: credentialed radiographs go to this machine or a private network alone.

The terms of credentialed data (PhysioNet's, for one) forbid passing it on to third parties, which a provider is.
"""

from __future__ import annotations

import ipaddress
import urllib.request
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from chexqa.contract.benchmark import Benchmark
from chexqa.eval.models.registry import Model, endpoint
from chexqa.files.errors import InputError
from chexqa.files.terminal import plural

BASELINE = "baseline/"
_LOCAL = [
    ipaddress.ip_network(block)
    for block in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]


def is_baseline(model: Model) -> bool:
    """Whether the model is computed in this process, so that nothing leaves it."""
    return model.litellm.startswith(BASELINE)


def check_endpoints(models: Iterable[Model]) -> None:
    """Refuse an address that is no URL, or that carries a user, password or query: it is written into ``run.json``."""
    for model in models:
        address = endpoint(model)
        if address is None:
            continue
        parts = _split(address)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            shown = "the address" if "@" in address else f"the address '{address}'"
            raise InputError(f"model '{model.name}': {shown} is no URL such as http://127.0.0.1:8000/v1.")
        if "@" in parts.netloc or parts.query:
            raise InputError(
                f"model '{model.name}': the address of {parts.hostname} holds a user, password or query; give "
                "the plain address, and the key in the environment variable that 'chexqa models' names."
            )


def check_credentialed(benchmark: Benchmark, models: Iterable[Model], allow_remote: bool) -> None:
    """Refuse to send pictures of credentialed cases anywhere but a loopback or private address, unless allowed."""
    cases = benchmark.about["access"]["credentialed"]
    if not cases or allow_remote:
        return
    for model in models:
        address = endpoint(model)
        if is_baseline(model) or (address is not None and is_local(address)):
            continue
        target = f"at {address}" if address else "at its provider"
        raise InputError(
            f"{benchmark.folder}: {plural(cases, 'case')} in it are credentialed, and their terms forbid sending "
            f"pictures to third parties, but '{model.name}' is asked {target}, which is neither this machine nor a "
            "private network address; serve the model yourself and name it by such an address "
            "(http://127.0.0.1:8000/v1, http://10.0.0.7/v1), or, where your agreement covers the provider, add "
            "--allow-remote-credentialed."
        )


def is_local(address: str) -> bool:
    """Whether requests to ``address`` stay on this machine or a private network.

    Only IP addresses and ``localhost`` count: what another name means is for the network to say, and may change. A
    proxy that the environment puts in between must itself be local.
    """
    parts = _split(address)
    if parts is None or not _is_local_host(parts.hostname):
        return False
    host = parts.netloc.rpartition("@")[2]
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or urllib.request.proxy_bypass(host):
        return True
    proxy_parts = _split(proxy if "//" in proxy else f"//{proxy}")
    return proxy_parts is not None and _is_local_host(proxy_parts.hostname)


def _is_local_host(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return any(ip in block for block in _LOCAL)


def _split(address: str) -> SplitResult | None:
    """The parts of a URL, or None for what is not one."""
    try:
        return urlsplit(address)
    except ValueError:
        return None
