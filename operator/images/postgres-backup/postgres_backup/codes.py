"""What an object store's errors mean: by its own codes, and without an answer by what botocore calls them."""

from __future__ import annotations

from postgres_backup.outcome import (
    ACCESS_DENIED,
    BUCKET_NOT_FOUND,
    ENGINE_FAILED,
    INVALID_REQUEST,
    STORE_UNREACHABLE,
    UNTRUSTED_CERTIFICATE,
)

_KEYS = "check accessKeyId and secretAccessKey in the Secret of credentialsSecretRef"
_RIGHTS = (
    "allow these keys to list, get, put and delete below the prefix; a verify and a restore need list and get"
)
_REGION = "the bucket is in another region: set region to it"
_FULL = "the store is full: give it space, or let retention keep less"
_ACCOUNT = "check accountName, and accountKey or sasToken, in the Secret of credentialsSecretRef"
_CONTAINER = "create the container, or fix targetURL"
_BUCKET = "create the bucket, or fix targetURL"
_AGAIN = "the next run tries again; check that endpointURL is right and the store answers"

MEANINGS = {
    "SignatureDoesNotMatch": (ACCESS_DENIED, f"the store refuses the secret key: {_KEYS}"),
    "InvalidAccessKeyId": (ACCESS_DENIED, f"the store does not know the access key: {_KEYS}"),
    # VersityGW's.
    "XAdminUserNotFound": (ACCESS_DENIED, f"the store does not know the access key: {_KEYS}"),
    "InvalidToken": (ACCESS_DENIED, f"the store refuses the credentials: {_KEYS}"),
    "ExpiredToken": (ACCESS_DENIED, f"the credentials have expired: {_KEYS}"),
    "AccessDenied": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "Forbidden": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "403": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "AllAccessDisabled": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "AccountProblem": (ACCESS_DENIED, "the store has locked the account: see its provider"),
    "RequestTimeTooSkewed": (ACCESS_DENIED, "the node's clock and the store's differ: set the node's clock"),
    "NoSuchBucket": (BUCKET_NOT_FOUND, f"the store has no such bucket: {_BUCKET}"),
    "InvalidBucketName": (BUCKET_NOT_FOUND, f"no bucket can have this name: {_BUCKET}"),
    "PermanentRedirect": (INVALID_REQUEST, _REGION),
    "AuthorizationHeaderMalformed": (INVALID_REQUEST, _REGION),
    "IllegalLocationConstraintException": (
        INVALID_REQUEST,
        "the bucket is in another region: set region to it",
    ),
    "QuotaExceeded": (ACCESS_DENIED, "the store's quota is used up: raise it, or let retention keep less"),
    "InsufficientCapacity": (
        STORE_UNREACHABLE,
        "the store is full: give it space, or let retention keep less",
    ),
    "XMinioStorageFull": (STORE_UNREACHABLE, _FULL),
    "SlowDown": (STORE_UNREACHABLE, f"the store is overloaded: {_AGAIN}"),
    "ServiceUnavailable": (STORE_UNREACHABLE, f"the store is overloaded: {_AGAIN}"),
    "InternalError": (STORE_UNREACHABLE, f"the store fails: {_AGAIN}"),
    # Azure's.
    "AuthenticationFailed": (ACCESS_DENIED, f"the store refuses the credentials: {_ACCOUNT}"),
    "AuthorizationFailure": (ACCESS_DENIED, f"the store refuses the credentials: {_ACCOUNT}"),
    "InvalidAuthenticationInfo": (ACCESS_DENIED, f"the store refuses the credentials: {_ACCOUNT}"),
    "KeyBasedAuthenticationNotPermitted": (
        ACCESS_DENIED,
        "the account permits no keys: allow shared key access, or use sasToken",
    ),
    "AuthorizationPermissionMismatch": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "AuthorizationResourceTypeMismatch": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "AuthorizationServiceMismatch": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "InsufficientAccountPermissions": (ACCESS_DENIED, f"the store refuses access: {_RIGHTS}"),
    "AccountIsDisabled": (ACCESS_DENIED, "the store has locked the account: see its provider"),
    "ContainerNotFound": (BUCKET_NOT_FOUND, f"the store has no such container: {_CONTAINER}"),
    "ContainerBeingDeleted": (BUCKET_NOT_FOUND, f"the container is being deleted: {_CONTAINER}"),
    "ResourceNotFound": (
        BUCKET_NOT_FOUND,
        f"the store has no such account or container: check accountName, and {_CONTAINER}",
    ),
    "InvalidResourceName": (BUCKET_NOT_FOUND, f"no container can have this name: {_CONTAINER}"),
    "ServerBusy": (STORE_UNREACHABLE, f"the store is overloaded: {_AGAIN}"),
    "OperationTimedOut": (STORE_UNREACHABLE, f"the store is overloaded: {_AGAIN}"),
    # Google's, of the server of tokens.
    "invalid_grant": (
        ACCESS_DENIED,
        "the key of the service account is refused: check serviceAccountKey in the Secret of "
        "credentialsSecretRef, and the node's clock",
    ),
    "429": (STORE_UNREACHABLE, f"the store is overloaded: {_AGAIN}"),
    # botocore's.
    "SSLError": (
        UNTRUSTED_CERTIFICATE,
        "the store's certificate is not trusted: give the authority that signed it in caSecretRef",
    ),
    "EndpointConnectionError": (STORE_UNREACHABLE, f"the store cannot be reached: {_AGAIN}"),
    "ConnectTimeoutError": (STORE_UNREACHABLE, f"the store cannot be reached: {_AGAIN}"),
    "ReadTimeoutError": (STORE_UNREACHABLE, f"the store does not answer: {_AGAIN}"),
    "ConnectionClosedError": (STORE_UNREACHABLE, f"the store breaks connections off: {_AGAIN}"),
    "ProxyConnectionError": (STORE_UNREACHABLE, f"the store cannot be reached by the proxy: {_AGAIN}"),
    "HTTPClientError": (STORE_UNREACHABLE, f"the store cannot be talked to: {_AGAIN}"),
    "ResponseParserError": (STORE_UNREACHABLE, f"what answers is no S3 store: {_AGAIN}"),
}


def meaning(code: str, *, status: int = 0) -> tuple[str, str]:
    """Reason and message for a code; for one that is not known by the HTTP status of the answer."""
    if code in MEANINGS:
        return MEANINGS[code]
    known = code if code.isalnum() and len(code) <= 64 else "a code that is none"
    if status >= 500:
        return STORE_UNREACHABLE, f"the store fails ({known}): {_AGAIN}"
    if status in (401, 403):
        return ACCESS_DENIED, f"the store refuses access ({known}): {_RIGHTS}"
    return ENGINE_FAILED, f"the store answers {known}: see its documentation and the Pod's log"
