"""Every reason of a condition, once: its word, its meaning, and what a user does next.

`docs/reference/reasons.md` is generated from `CATALOGUE` (`python -m tests.unit.schema.reasons`). Where
Kubernetes has a word for the same thing, the reason is that word: FailedCreate, CrashLoopBackOff.
"""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """One row of the table. `group` is a heading: who can have it."""

    name: str
    group: str
    meaning: str
    next: str


CATALOGUE: dict[str, Reason] = {}
"""By name, in the order of the table."""

_ALL = "Any kind"
_PODS = "Kinds that run Pods"
_MEMCACHED = "Memcached"
_CONSUMER = "PulsarConsumer"
_WAITING = "PulsarConsumer, condition BacklogMoving"
_REPLAY = "PulsarConsumer, condition Replayed"
_FRIEND = "MyCustomResource"
_POSTGRESQL = "Postgresql"
_ITEMS = "Postgresql, roles and databases"
_SECURED = "Postgresql, PulsarConsumer and Memcached"
_SERVERS = "Postgresql and Memcached"
_PENDING = "Postgresql, condition RestartPending"
_OTHER = "Postgresql, other conditions"
_BACKUP = "Backup and Restore"
_IMPORT = "BindingImport, and Postgresql in `status.bindingExports`"


def _reason(name: str, group: str, meaning: str, next: str = "nothing") -> str:
    CATALOGUE[name] = Reason(name, group, meaning, next)
    return name


RECONCILING = _reason("Reconciling", _ALL, "the spec is being put into effect", "wait")
AS_EXPECTED = _reason("AsExpected", _ALL, "of Degraded=False: no fault is known")
SERVING = _reason("Serving", _ALL, "of Available=True: at least one Pod serves its clients")
APPLY_REJECTED = _reason(
    "ApplyRejected",
    _ALL,
    "the API server rejects a child: a quota, a policy, an immutable field, a class that does not grow",
    "fix what its message names; the write is retried",
)
SERVER_ERROR = _reason(
    "ServerError",
    _ALL,
    "the API server answers a write with 500, for example because a range of addresses is full",
    "fix what its message names; the write is retried",
)
NAME_CONFLICT = _reason(
    "NameConflict",
    _ALL,
    "a child's name is taken by an object of another owner, which was not changed",
    "use another name, or delete the object that the message names",
)
TERMINATING = _reason(
    "Terminating",
    _ALL,
    "an object of an earlier resource of this name is still being deleted",
    "wait; if it lasts, look at the object's finalizers (`kubectl get -o yaml`)",
)
INVALID_SPEC = _reason(
    "InvalidSpec", _ALL, "the spec cannot be put into effect", "edit the field that the message names"
)
SECRET_NOT_FOUND = _reason(
    "SecretNotFound",
    _ALL,
    "a Secret that the spec names, or the key in it, does not exist",
    "create it, or name another one",
)
REPAIRED = _reason(
    "Repaired", _ALL, "of an Event: a child was deleted or edited by another writer, and was set back"
)
CHANGED_BY_ADMISSION = _reason(
    "ChangedByAdmission",
    _ALL,
    "of an Event: a webhook or policy of the cluster changes a child as it is written, and it is left so",
    "exempt the resource from that policy if the child should be as the operator writes it",
)

UNSCHEDULABLE = _reason(
    "Unschedulable",
    _PODS,
    "no node accepts a Pod; the message has the scheduler's",
    "free what it requests, request less, or change where it may run (`spec.podTemplate`)",
)
IMAGE_PULL_FAILED = _reason(
    "ImagePullFailed",
    _PODS,
    "the node cannot pull an image",
    "fix its name, or make it available to the node (`kubectl describe pod`)",
)
POD_SETUP_FAILED = _reason(
    "PodSetupFailed", _PODS, "a container cannot be created or started", "see `kubectl describe pod`"
)
CRASH_LOOP_BACK_OFF = _reason(
    "CrashLoopBackOff", _PODS, "a container exits again and again", "see `kubectl logs --previous`"
)
CONTAINER_TERMINATED = _reason(
    "ContainerTerminated",
    _PODS,
    "of an Event: a container failed and was started again",
    "for `OOMKilled`, raise the limit of its memory; else see `kubectl logs --previous`",
)
FAILED_CREATE = _reason(
    "FailedCreate",
    _PODS,
    "the cluster rejects the Deployment's Pods or its ReplicaSet: a quota, a policy, a ServiceAccount that "
    "does not exist",
    "allow it, request less, or create what is missing; it is retried at growing intervals, and at once "
    "after the command of the message",
)
POD_MISSING = _reason(
    "PodMissing",
    _PODS,
    "the workload has fewer Pods than it should, and none is created; the message has the newest Event's",
    "allow it, request less, or create what is missing; it is retried at growing intervals, and at once "
    "after the command of the message",
)
NODE_LOST = _reason(
    "NodeLost",
    _PODS,
    "the node of a Pod does not respond",
    "bring it back; if it is gone for good, delete the Node, or taint it "
    "`node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`",
)
VOLUME_NOT_MOUNTED = _reason(
    "VolumeNotMounted",
    _PODS,
    "a volume cannot be attached or mounted: another node holds it, or its storage fails",
    "free it (`kubectl get volumeattachments`), or fix the storage class's driver",
)
PROGRESS_DEADLINE_EXCEEDED = _reason(
    "ProgressDeadlineExceeded",
    _PODS,
    "no Pod made progress for `spec.progressDeadlineSeconds`, for a cause that no other reason names",
    "look at the object that the message names",
)

REPLICAS_READY = _reason(
    "ReplicasReady", _MEMCACHED, "all replicas are ready, and none is of an earlier spec"
)
MINIMUM_REPLICAS_UNAVAILABLE = _reason(
    "MinimumReplicasUnavailable",
    _MEMCACHED,
    "some replicas are ready, fewer than `spec.size`",
    "wait, or look at the Pods",
)

HIT_RATIO_TOO_LOW = _reason(
    "HitRatioTooLow",
    _MEMCACHED,
    "a roll-out waits: without the next server, fewer reads would find their item than "
    "`spec.rollout.minHitRatioPercent` asks for",
    "wait until the new servers have their items, or lower the bound",
)

CONNECTED = _reason("Connected", _CONSUMER, "all consumers are connected to the broker")
SCALED_TO_ZERO = _reason(
    "ScaledToZero",
    _CONSUMER,
    "`spec.replicas` is 0; the broker keeps the messages",
    "set `spec.replicas` to consume",
)
BROKER_UNREACHABLE = _reason(
    "BrokerUnreachable",
    _CONSUMER,
    "no broker answers at `spec.serverAddress`",
    "start the broker, open its network, or fix the address",
)
AUTHENTICATION_FAILED = _reason(
    "AuthenticationFailed",
    _CONSUMER,
    "the broker rejects the credentials of `spec.auth` or the client certificate of `spec.tls`, or the "
    "issuer rejects the client ID and secret",
    "put valid ones into the Secret",
)
ISSUER_UNREACHABLE = _reason(
    "IssuerUnreachable",
    _CONSUMER,
    "the issuer of `spec.auth.oauth2` gives no answer, or none with a token",
    "start it, open its network, fix the address, or name its authority in `spec.tls.caSecretRef`",
)
NOT_AUTHORIZED = _reason(
    "NotAuthorized",
    _CONSUMER,
    "the bearer of `spec.auth` may not consume the topic",
    "grant it that right, or use other credentials",
)
TOPIC_NOT_FOUND = _reason(
    "TopicNotFound",
    _CONSUMER,
    "the topic, its namespace or its tenant does not exist",
    "create it on the broker, or fix `spec.topic`",
)
INVALID_TOPIC = _reason("InvalidTopic", _CONSUMER, "`spec.topic` is not a topic's name", "edit `spec.topic`")
INVALID_ADDRESS = _reason(
    "InvalidAddress", _CONSUMER, "`spec.serverAddress` is not an address", "edit `spec.serverAddress`"
)
SUBSCRIPTION_BUSY = _reason(
    "SubscriptionBusy",
    _CONSUMER,
    "other consumers hold the subscription, exclusively or with another type",
    "stop them, or use another subscription or type",
)
INCOMPATIBLE_SCHEMA = _reason(
    "IncompatibleSchema",
    _CONSUMER,
    "the topic's schema is not of `spec.schema.type`, or the broker does not find "
    "`spec.schema.definition` compatible with it",
    "fix `spec.schema`, or change what the namespace allows",
)
UNSUBSCRIBING = _reason(
    "Unsubscribing",
    _CONSUMER,
    "the PulsarConsumer was deleted: its consumers stop, and the broker deletes their subscription "
    "(`deletionPolicy`)",
    "wait; to keep the subscription, set `spec.deletionPolicy` to `Retain`",
)
INVALID_SETTING = _reason(
    "InvalidSetting",
    _CONSUMER,
    "the consumer rejects one of its environment variables",
    "fix the one that it names",
)
CONFIG_MAP_NOT_FOUND = _reason(
    "ConfigMapNotFound",
    _CONSUMER,
    "the ConfigMap of `spec.handler.python`, or the key in it, does not exist",
    "create it, or name another one",
)
HANDLER_UNAVAILABLE = _reason(
    "HandlerUnavailable",
    _CONSUMER,
    "a consumer cannot start with `spec.handler`: its code cannot be imported, or nobody answers at its "
    "URL or in its container",
    "fix the code, the service or the program that the message names; consumers that run go on",
)
HANDLER_FAILING = _reason(
    "HandlerFailing",
    _CONSUMER,
    "a consumer's handler has failed on every message for a minute, ten times at least",
    "fix the handler or what it uses; the consumer's log has each failure",
)
POISON_MESSAGE = _reason(
    "PoisonMessage",
    _CONSUMER,
    "one message fails again and again, or ends the consumer's process, by a handler that handles others",
    "set `spec.deadLetter.topic`, or fix the handler for the message that is named; the consumer's log has "
    "each failure, and its previous log (`--previous`) the last lines of a process that ended",
)
ACKNOWLEDGING = _reason("Acknowledging", _WAITING, "messages wait, and are being acknowledged")
NO_BACKLOG = _reason("NoBacklog", _WAITING, "every message of the subscription is acknowledged")
NO_CONSUMERS = _reason(
    "NoConsumers",
    _WAITING,
    "messages wait, and the broker has no consumer of the subscription",
    "set `spec.replicas`, or see the condition Ready",
)
BACKLOG_STUCK = _reason(
    "BacklogStuck",
    _WAITING,
    "messages wait, consumers are connected, and none has acknowledged anything for five minutes, or for "
    "twice the handler's time-out and a minute",
    "see the consumers' logs: the handler fails on every message, or waits",
)
ADMIN_UNREACHABLE = _reason(
    "AdminUnreachable",
    _WAITING,
    "the broker's admin API does not answer at `spec.adminURL`, or answers with an error",
    "start it, open its network to the operator, or fix the address",
)
SUBSCRIPTION_NOT_FOUND = _reason(
    "SubscriptionNotFound",
    _WAITING,
    "the topic has no such subscription yet",
    "let a consumer connect, which makes it",
)
TOO_MANY_TOPICS = _reason(
    "TooManyTopics",
    _WAITING,
    "`spec.topicsPattern` matches more topics than the operator asks about",
    "use several resources with narrower patterns",
)
CURSOR_RESET = _reason(
    "CursorReset",
    _REPLAY,
    "the broker had the subscription begin again with what was published from `spec.replay.from` on",
)

FRIEND_FOUND = _reason("FriendFound", _FRIEND, "a Pod of the name in `spec.name` exists")
FRIEND_MISSING = _reason(
    "FriendMissing", _FRIEND, "no Pod of the name in `spec.name` exists", "create one, or edit `spec.name`"
)

CERTIFICATE_REJECTED = _reason(
    "CertificateRejected",
    _SECURED,
    "the server or broker has no certificate that proves it to be this one: another authority's, another "
    "name's, ended",
    "see what runs there, and `spec.tls`; where the message says that a Postgresql's has ended, "
    "`kubectl delete pod NAME-0`",
)
INVALID_CERTIFICATE = _reason(
    "InvalidCertificate",
    _SECURED,
    "a Secret that `spec.tls` names has no certificate in PEM, or no key of it, or none that the server "
    "could serve",
    "put one there; what runs keeps the certificate that it has",
)
INVALID_PASSWORD = _reason(
    "InvalidPassword",
    _SERVERS,
    "the Secret's value is not one line of text, or none that memcached takes",
    "put another password into it; the message says of what form",
)
LOGIN_FAILED = _reason(
    "LoginFailed",
    _SERVERS,
    "the default user cannot log in, or memcached refuses its own login; it is retried",
    "see the Pod's log if it lasts",
)
NOT_RESPONDING = _reason(
    "NotResponding",
    _SERVERS,
    "the server accepts connections and does not answer in time, or its disk accepts no commit; a memcached "
    "with TLS or a login does not answer",
    "look at the Pod, its node and its disk; deleting the Pod starts the server again",
)
CERTIFICATE_EXPIRED = _reason(
    "CertificateExpired",
    _SERVERS,
    "the certificate in the Secret that `spec.tls.secretName` names has ended",
    "put a later one there: it is served without a restart",
)
CERT_MANAGER_NOT_FOUND = _reason(
    "CertManagerNotFound",
    _POSTGRESQL,
    "`spec.tls.issuerRef` needs cert-manager, and the cluster does not have it",
    "install it, or leave the field out; a server that runs keeps its certificate",
)
CERTIFICATE_PENDING = _reason(
    "CertificatePending",
    _POSTGRESQL,
    "cert-manager has not issued the certificate of `spec.tls.issuerRef` yet",
    "wait; if it lasts, see that the issuer exists and is Ready",
)
CERTIFICATE_NOT_ISSUED = _reason(
    "CertificateNotIssued",
    _POSTGRESQL,
    "cert-manager tried to have the certificate of `spec.tls.issuerRef` issued, and failed",
    "fix what `kubectl describe certificate NAME-server-issued` says; cert-manager tries again",
)
LOGIN_SUCCEEDED = _reason("LoginSucceeded", _POSTGRESQL, "the default user logged in through the Service")
SERVER_CRASHED = _reason(
    "ServerCrashed",
    _POSTGRESQL,
    "of an Event: a process of PostgreSQL failed or was killed, which ended all sessions",
    "see the server's log for which one and why; the kernel kills one for memory",
)
RESTARTED = _reason(
    "Restarted",
    _POSTGRESQL,
    "of an Event: PostgreSQL was restarted within its Pod, for parameters that need it",
)
RESTART_PENDING = _reason(
    "RestartPending", _POSTGRESQL, "the server is restarted to put parameters into effect", "wait"
)
HIBERNATED = _reason(
    "Hibernated",
    _POSTGRESQL,
    "the server is stopped (`spec.hibernate`, `hibernateWindow`, `hibernateAfter`), its data kept",
    "set `spec.hibernate` to false, remove `spec.hibernateWindow`, or `kubectl kindling wake NAME`",
)
RESTORING = _reason(
    "Restoring",
    _POSTGRESQL,
    "a Restore has the server stopped while it puts other data in its place (`into: InPlace`)",
    "wait; `kubectl get restore` says how far it is",
)
PAUSED = _reason(
    "Paused",
    _POSTGRESQL,
    "`spec.paused` is true, or `spec.mode` is `Plan`, and something differs from the spec",
    "set `spec.paused` to false, or `spec.mode` to `Apply`, to reconcile it",
)
USER_CONFLICT = _reason(
    "UserConflict",
    _POSTGRESQL,
    "the volume holds the data of another `spec.defaultUser`",
    "use that user, another name, or an empty volume",
)
VERSION_CONFLICT = _reason(
    "VersionConflict",
    _POSTGRESQL,
    "the volume holds data of another major version",
    "set `spec.version` to that one, or dump and restore",
)
VERSION_UNAVAILABLE = _reason(
    "VersionUnavailable",
    _POSTGRESQL,
    "the operator has no image of this major version",
    "name an image in `spec.image`",
)
VERSION_MISMATCH = _reason(
    "VersionMismatch",
    _POSTGRESQL,
    "the server in `spec.image` is of another version than `spec.version`",
    "fix one of the two",
)
INVALID_PARAMETER = _reason(
    "InvalidParameter",
    _POSTGRESQL,
    "PostgreSQL rejects `spec.parameters`; none of them was changed",
    "fix or remove the parameter that the message names",
)
INIT_SQL_FAILED = _reason(
    "InitSQLFailed",
    _POSTGRESQL,
    "`spec.initSQL` could not be read or run; the default user's database is not there yet",
    "correct what the message names: it is run again then",
)
INVALID_HBA = _reason(
    "InvalidHba",
    _POSTGRESQL,
    "PostgreSQL cannot use a line of `spec.hba`; it has not been asked to read them",
    "correct or remove the line that the message names",
)
DISK_FULL = _reason("DiskFull", _POSTGRESQL, "the volume is full", "raise `spec.storage.size`, or free space")
DATA_LOST = _reason(
    "DataLost",
    _POSTGRESQL,
    "the volume is empty or has other data than this database had; nothing was initialised",
    "restore the data and delete the Pod, or run the command that the message has to start empty",
)
VOLUME_NOT_BOUND = _reason(
    "VolumeNotBound",
    _POSTGRESQL,
    "no volume is made for the claim of the data; the message has the provisioner's words",
    "create the StorageClass, mark one as the default, or fix its provisioner (`kubectl describe pvc`)",
)
VOLUME_DELETING = _reason(
    "VolumeDeleting",
    _POSTGRESQL,
    "the claim is being deleted and goes with its data when the Pod ends",
    "do not delete the Pod; keep the PersistentVolume or dump the data, by the commands that the message has",
)
RECOVERING = _reason(
    "Recovering",
    _POSTGRESQL,
    "PostgreSQL replays its log after a crash; a fault once the deadline has passed",
    "read its log; with a large `max_wal_size` it takes minutes, so raise the deadline",
)
SUPERUSER_LOGIN_FAILED = _reason(
    "SuperuserLoginFailed",
    _POSTGRESQL,
    "the server has another superuser password than the Secret `NAME-superuser`",
    "delete the Pod: the server takes the password from the Secret at its start",
)
UNSAFE_AUTHENTICATION = _reason(
    "UnsafeAuthentication",
    _POSTGRESQL,
    "the server requested another authentication than SCRAM-SHA-256; no password was sent",
    "use another image, or fix its `pg_hba.conf`",
)
TOO_MANY_CONNECTIONS = _reason(
    "TooManyConnections",
    _POSTGRESQL,
    "the server has no connection left",
    "close connections, or raise `max_connections`",
)

APPLIED = _reason("Applied", _ITEMS, "the server has it as the spec says")
STATEMENT_REJECTED = _reason(
    "StatementRejected",
    _ITEMS,
    "PostgreSQL rejects what would make it so; the message has its words",
    "fix the item, or what the message names on the server; it is retried every minute",
)
CANNOT_CHANGE = _reason(
    "CannotChange",
    _ITEMS,
    "a database has another encoding, collation or ICU locale, which only its creation decides",
    "set the fields back, or dump the database and restore it under another name",
)
DROP_BLOCKED = _reason(
    "DropBlocked",
    _ITEMS,
    "it has left the spec and is to be dropped, but is in use",
    "close the sessions, or hand over what the role owns, as the message says",
)

QUEUED = _reason(
    "Queued",
    _PENDING,
    "other databases are restarted first",
    "wait, or `kubectl rollout restart statefulset NAME`",
)
RESTARTS_HALTED = _reason(
    "RestartsHalted",
    _PENDING,
    "the database that the operator restarted last is not Ready for ten minutes, so no other is restarted",
    "the operator's log names it (`no further restarts`): fix it, or set its `spec.updates` to `Manual`",
)
AWAITING_WINDOW = _reason(
    "AwaitingWindow",
    _PENDING,
    "the maintenance window is closed",
    "wait, or `kubectl rollout restart statefulset NAME`",
)
NEXT_RESTART = _reason(
    "NextRestart",
    _PENDING,
    "the change comes with the Pod's next start",
    "wait, or `kubectl rollout restart statefulset NAME`",
)
APPROVAL_PENDING = _reason(
    "ApprovalPending",
    _PENDING,
    "a change waits for an approval, as `spec.approval` asks; of Ready, one of the spec",
    "read `status.approvals`, and approve it with the command of the message",
)
MANUAL = _reason(
    "Manual", _PENDING, "`spec.updates` is `Manual`", "`kubectl rollout restart statefulset NAME`"
)

RESIZING = _reason("Resizing", _OTHER, "of Progressing: the volume grows", "wait")
RESIZE_FAILED = _reason(
    "ResizeFailed",
    _OTHER,
    "of Progressing: the storage could not make the volume larger; it is retried",
    "fix what its message names, or set `spec.storage.size` to less, but more than the volume has",
)
PASSWORD_IN_SPEC = _reason(
    "PasswordInSpec",
    _OTHER,
    "of PlaintextPassword: whoever may read the resource may read `spec.password`",
    "name a Secret in `spec.passwordSecretRef`",
)
CANNOT_SHRINK = _reason(
    "CannotShrink",
    _OTHER,
    "of VolumeLarger: `spec.storage.size` is less than the volume has, and a volume cannot shrink",
    "set it to the volume's size, or dump and restore",
)
MAX_SIZE_REACHED = _reason(
    "MaxSizeReached",
    _OTHER,
    "of VolumeAtLimit: the volume would grow by itself, and has `spec.storage.autoGrow.maxSize` already",
    "raise `maxSize`, or delete data",
)

SUCCEEDED = _reason(
    "Succeeded",
    _BACKUP,
    "the newest run succeeded, and nothing speaks against it; of a Restore into `Verify`, the copy has "
    "passed its checks",
)
SCHEDULED = _reason("Scheduled", _BACKUP, "no run has been due yet", "wait for `status.nextScheduledTime`")
RUNNING = _reason("Running", _BACKUP, "a run is under way", "wait; its Pod's log says how far it is")
SUSPENDED = _reason(
    "Suspended", _BACKUP, "`spec.suspend` is true: no run is started", "set `spec.suspend` to false"
)
DELETING_BACKUPS = _reason(
    "DeletingBackups",
    _BACKUP,
    "the Backup was deleted: its database stops archiving, and what is stored is deleted (`deletionPolicy`)",
    "wait; to keep what is stored, set `spec.deletionPolicy` to `Retain`",
)
DATABASE_NOT_FOUND = _reason(
    "DatabaseNotFound",
    _BACKUP,
    "there is no Postgresql of the name in `spec.databaseRef`",
    "create it, or create the Backup with another `databaseRef`",
)
DATABASE_NOT_READY = _reason(
    "DatabaseNotReady",
    _BACKUP,
    "the Postgresql is not up, or is being restarted to archive its log",
    "wait; if it lasts, see the conditions of the Postgresql",
)
DATABASE_UNREACHABLE = _reason(
    "DatabaseUnreachable",
    _BACKUP,
    "a run got no answer from the server, or from its archiver",
    "wait until the Postgresql is Ready; the run is repeated",
)
DATABASE_UNSUITABLE = _reason(
    "DatabaseUnsuitable",
    _BACKUP,
    "the Postgresql cannot be backed up: its data is ephemeral, or its `wal_level` is `minimal`",
    "change the Postgresql as the message says",
)
IMAGE_WITHOUT_PGBACKREST = _reason(
    "ImageWithoutPgBackRest",
    _BACKUP,
    "the Postgresql runs an image of its own (`spec.image`), in which pgBackRest need not be",
    "remove `spec.image` from the Postgresql",
)
BACKUP_CONFLICT = _reason(
    "BackupConflict",
    _BACKUP,
    "another Backup backs up this Postgresql already",
    "delete one of the two",
)
INVALID_SECRET = _reason(
    "InvalidSecret",
    _BACKUP,
    "what stands in a Secret that the spec names is not one line of text, no certificate, or no key of that "
    "store",
    "write it as the message says",
)
STORE_UNREACHABLE = _reason(
    "StoreUnreachable",
    _BACKUP,
    "the store does not answer, its certificate is not trusted, or its claim is lost or being deleted",
    "see that it runs and that the cluster may reach it; name its authority in `spec.caSecretRef`",
)
ACCESS_DENIED = _reason(
    "AccessDenied",
    _BACKUP,
    "the store rejects the keys, or they do not permit what is needed; a volume is not writable",
    "put valid keys into the Secret of `spec.credentialsSecretRef`; the run is repeated",
)
BUCKET_NOT_FOUND = _reason(
    "BucketNotFound",
    _BACKUP,
    "the bucket, container or PersistentVolumeClaim does not exist",
    "create it, or fix `spec.targetURL`",
)
STORE_FULL = _reason(
    "StoreFull",
    _BACKUP,
    "the volume that is the store has no space left",
    "let its claim ask for more; the run is repeated",
)
STORE_UNSUITABLE = _reason(
    "StoreUnsuitable",
    _BACKUP,
    "the PersistentVolumeClaim in `spec.targetURL` cannot be shared or written, or has a Postgresql's data",
    "name another claim",
)
WRONG_PASSPHRASE = _reason(
    "WrongPassphrase",
    _BACKUP,
    "the repository is encrypted with another passphrase, or with none",
    "put back the passphrase that it was made with, or use another `spec.targetURL`",
)
REPOSITORY_OF_ANOTHER_DATABASE = _reason(
    "RepositoryOfAnotherDatabase",
    _BACKUP,
    "the path in the store holds backups of other data",
    "use another `spec.targetURL`",
)
ARCHIVING_BEHIND = _reason(
    "ArchivingBehind",
    _BACKUP,
    "the server's log does not reach the store",
    "see the store, and `kubectl logs NAME-0 -c postgres`; what waits is kept and uploaded later",
)
WAL_GAP = _reason(
    "WalGap",
    _BACKUP,
    "a part of the log is missing in the store: a restore ends before the newest archived moment",
    "make a full backup, and find out who deletes objects from the store",
)
CHECKSUM_FAILED = _reason(
    "ChecksumFailed",
    _BACKUP,
    "a page, an index or an object of the store is damaged",
    "make a full backup; check the disks of the database and of the store",
)
QUERY_FAILED = _reason(
    "QueryFailed",
    _BACKUP,
    "a query of `spec.verify.queries` failed on the restored copy, or had another result",
    "fix the query, or find out what is wrong with the data",
)
TARGET_NOT_REACHED = _reason(
    "TargetNotReached",
    _BACKUP,
    "the log in the store ends before `spec.recoveryTarget`",
    "use a target before the Backup's `status.latestRestorableTime`",
)
TARGET_TOO_EARLY = _reason(
    "TargetTooEarly",
    _BACKUP,
    "`spec.recoveryTarget` is before the oldest backup that is kept",
    "use a target after the Backup's `status.firstRecoverabilityPoint`",
)
NOT_VERIFIED_YET = _reason(
    "NotVerifiedYet", _BACKUP, "no restore of a backup has been tried yet", "wait, or set `spec.verify`"
)
VERIFICATION_STALE = _reason(
    "VerificationStale",
    _BACKUP,
    "the last restore that succeeded is older than `spec.verify.maxAge`",
    "see why the verify runs do not succeed, or do not run",
)
RUN_FAILED = _reason(
    "RunFailed", _BACKUP, "a run failed, for a cause that no other reason names", "see its Pod's log"
)
RUN_NOT_STARTED = _reason(
    "RunNotStarted",
    _BACKUP,
    "the Pod of a restore in place did not start within ten minutes; its server runs again",
    "fix what the message names, delete the Restore, and create it again",
)
ARCHIVING = _reason("Archiving", _BACKUP, "of Archiving=True: the server's log reaches the store")
BACKUP_NOT_FOUND = _reason(
    "BackupNotFound",
    _BACKUP,
    "there is no Backup of the name in `spec.source.backupRef`, or it has no backup yet",
    "create it, wait for its first backup, or name another one",
)
TARGET_EXISTS = _reason(
    "TargetExists",
    _BACKUP,
    "the Postgresql to restore into, its volume, or a database of that name in it exists already; nothing "
    "was changed",
    "create the Restore with another name, or delete what the message names",
)
NOT_IN_BACKUP = _reason(
    "NotInBackup",
    _BACKUP,
    "at that moment there was no such database or table; nothing was loaded",
    "create the Restore with another moment, or fix the name in `spec.databases`",
)
ROLE_NOT_FOUND = _reason(
    "RoleNotFound",
    _BACKUP,
    "the Postgresql does not have the roles that what is loaded belongs to; nothing was loaded",
    "make the roles that the message names (`spec.roles`), and create another Restore",
)
LOAD_FAILED = _reason(
    "LoadFailed",
    _BACKUP,
    "the Postgresql did not take what was loaded; nothing of it is left there",
    "see the message and the log of its Pod, and create another Restore",
)
ANOTHER_RESTORE = _reason(
    "AnotherRestore",
    _BACKUP,
    "another Restore is at work on this Postgresql in place, or keeps the data from before it",
    "delete that Restore; what it keeps is given up",
)
RESTORED = _reason("Restored", _BACKUP, "the data is restored, and the Postgresql has it")
UNDONE = _reason(
    "Undone",
    _BACKUP,
    "the data from before a restore in place is in its place again (`spec.undo`)",
)
IMPORTED = _reason("Imported", _IMPORT, "the Secret of the import is a copy of the binding, and follows it")
NOT_EXPORTED = _reason(
    "NotExported",
    _IMPORT,
    "no Postgresql of that group, namespace and name exports this to the import; there is no copy",
    "have its owner add what the message has to its `spec.bindingExports`, or correct the import",
)
IMPORT_MISSING = _reason(
    "ImportMissing",
    _IMPORT,
    "the receiving namespace has no BindingImport of that name that asks for this; there is no copy",
    "have somebody with rights there apply what the message has",
)
BINDING_PENDING = _reason(
    "BindingPending",
    _IMPORT,
    "the binding, or the copy of it, is not there yet, or is not current; a copy from before stays",
    "wait, or see the message of the import's `Ready`",
)
NOT_SERVED = _reason(
    "NotServed",
    _IMPORT,
    "the operator does not serve the other namespace, or no BindingImports; there is no copy",
    "name it in `kindling:watchNamespaces` or `kindling:kinds`, or correct the namespace",
)

# The reasons of a new kind come here.
