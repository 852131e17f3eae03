"""Rules for where pictures may be sent: credentialed radiographs stay on this machine or a private network.

The terms of credentialed data, such as PhysioNet's, forbid passing the data on to third parties.
"""

from __future__ import annotations

import ipaddress
import urllib.request
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from chexqa.contract.benchmark import Benchmark
from chexqa.eval.models.registry import BASELINE, Model, endpoint
from chexqa.files.errors import InputError
from chexqa.files.terminal import plural

_LOCAL = [
    ipaddress.ip_network(block)
    for block in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]


def is_baseline(model: Model) -> bool:
    """Return True for a baseline, which is computed in this process without sending anything."""
    return model.litellm.startswith(BASELINE)


def check_endpoints(models: Iterable[Model]) -> None:
    """Raise ``InputError`` for an address that is not a URL, or that contains a user, password, query or fragment."""
    # Addresses are written into ``run.json``, so they must not contain secrets.
    for model in models:
        address = endpoint(model)
        if address is None:
            continue
        parts = _split(address)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            shown = "the address" if "@" in address else f"the address '{address}'"
            raise InputError(f"model '{model.name}': {shown} is not a URL; give one such as http://127.0.0.1:8000/v1.")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InputError(
                f"model '{model.name}': the address of {parts.hostname} contains a user, password, query or #; give "
                "the address without them, and put the API key into the environment variable that 'chexqa models' "
                "names."
            )


def check_credentialed(benchmark: Benchmark, models: Iterable[Model], allow_remote: bool) -> None:
    """Raise ``InputError`` if credentialed pictures would be sent beyond this machine and private networks.

    Python callables pass this check; their authors must make sure that pictures are sent nowhere.
    """
    cases = benchmark.about["access"]["credentialed"]
    if not cases or allow_remote:
        return
    for model in models:
        address = endpoint(model)
        if is_baseline(model) or model.python is not None or (address is not None and is_local(address)):
            continue
        target = f"at {address}" if address else "at its provider"
        raise InputError(
            f"{benchmark.folder}: the terms of its credentialed data ({plural(cases, 'case')}) forbid sending "
            f"pictures to third parties; '{model.name}' is asked {target}, which is neither this machine nor a "
            "private network address. Serve the model yourself (at an address such as http://127.0.0.1:8000/v1 "
            "or http://10.0.0.7/v1), or, if your agreement covers the provider, add --allow-remote-credentialed."
        )


def is_local(address: str) -> bool:
    """Return True if requests to ``address`` stay on this machine or a private network."""
    # Only IP addresses and ``localhost`` count as local, because other names may lead anywhere. A proxy from the
    # environment must be local too.
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
    """Return the parts of a URL; None if the text is not a URL, or its port is not a port."""
    try:
        parts = urlsplit(address)
        return parts if parts.port != 0 else None  # reading an impossible port raises ValueError
    except ValueError:
        return None
