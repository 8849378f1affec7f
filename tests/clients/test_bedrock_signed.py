"""boto3 with its own SigV4 signature, through an Envoy that signs what the filter lets through."""

import hashlib
import os
import re

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

import conversation
from test_bedrock import Agent, client

HOST = "bedrock-runtime.us-east-1.amazonaws.com"
ENVOY_KEYS = Credentials("AKIAENVOY", "kept-by-envoy")
AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=(\S+), ?SignedHeaders=(\S+), ?Signature=([0-9a-f]{64})")


class Verifier(SigV4Auth):
    """AWS takes the headers that a signature names; botocore by itself leaves some out when it signs."""

    def headers_to_sign(self, request):
        headers = HTTPHeaders()
        for name, value in request.headers.items():
            headers[name.lower()] = value
        return headers


def signature(request):
    """The signature that AWS works out for a request that arrived: botocore's code, the headers that were signed."""
    _, names, _ = AUTHORIZATION.fullmatch(request["headers"]["authorization"]).groups()
    headers = {name: request["headers"][name] for name in names.split(";")}
    arrived = AWSRequest("POST", f"https://{HOST}{request['path']}", headers, request["body"].encode())
    arrived.context["timestamp"] = request["headers"]["x-amz-date"]
    signer = Verifier(ENVOY_KEYS, "bedrock", "us-east-1")
    return signer.signature(signer.string_to_sign(arrived, signer.canonical_request(arrived)), arrived)


def assert_signed_by_envoy(request):
    """The signature is Envoy's, and covers the body that arrived."""
    credential, names, signed = AUTHORIZATION.fullmatch(request["headers"]["authorization"]).groups()
    assert credential.startswith("AKIAENVOY/") and credential.endswith("/us-east-1/bedrock/aws4_request")
    assert {"host", "x-amz-date"} <= set(names.split(";"))
    assert request["headers"]["host"] == HOST
    assert request["headers"]["x-amz-content-sha256"] == hashlib.sha256(request["body"].encode()).hexdigest()
    assert signed == signature(request)
    other = {**request, "headers": {**request["headers"], "x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}}
    assert signed != signature(other), "the signature does not cover the body"


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_envoy_signs_what_leaves(signing_stand_in, monkeypatch, streaming):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIACLIENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "kept-by-the-client")
    agent = Agent(client(os.environ["SIGNING_URL"]), "us.anthropic.claude-sonnet-4-5-20250929-v1:0", streaming)
    talk = conversation.play(agent, signing_stand_in)
    requests = signing_stand_in.requests()
    conversation.assert_sound(talk, requests, "messages")
    conversation.assert_old_results_gone(talk, requests)
    for request in requests:
        assert_signed_by_envoy(request)
