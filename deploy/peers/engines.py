"""The engines of the comparison: how their tools are fetched and built, and how each is started with empty data."""

import ctypes
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
READY_SECONDS = 180  # all are ready within 15 s on an idle machine
STOP_SECONDS = 20


class Failed(Exception):
    """Something that the user has to read; no traceback helps."""


# --- processes


def prepare_child():
    """Gives a child a process group, so that Ctrl-C reaches this script only, which ends the others in order. All stay in one session: Linux divides
    the CPU among sessions first, and an engine of several processes would get more. If this script is killed, the kernel ends the child
    (PR_SET_PDEATHSIG is 1)."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Processes:
    """What one run started, each process with what it starts itself."""

    def __init__(self, dir):
        self.dir, self.all = dir, []

    def start(self, name, command, env=None, user=None, stdout=None, stdin=subprocess.DEVNULL):
        """Starts a command. Its output goes to NAME.log."""
        log = open(self.dir / f"{name}.log", "ab")
        who = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        p = subprocess.Popen(
            [str(c) for c in command], env={**os.environ, **(env or {})}, cwd=self.dir, stdin=stdin, stdout=stdout or log,
            stderr=log, preexec_fn=prepare_child, text=stdout is not None, **who)
        log.close()
        p.name = name
        self.all.append(p)
        return p

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")[-3000:]

    def alive(self):
        """Fails if a process has ended."""
        for p in self.all:
            if p.poll() is not None:
                raise Failed(f"{p.name} ended with {p.returncode}:\n{self.log(p.name)}")

    def stop(self):
        for p in reversed(self.all):
            if p.poll() is None:
                p.send_signal(signal.SIGINT if p.name == "postgres" else signal.SIGTERM)  # Postgres: without waiting for clients
                try:
                    p.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
            try:
                os.killpg(p.pid, signal.SIGKILL)  # also what it started itself
            except ProcessLookupError:
                pass
            p.wait()
        self.all = []


def free_ports(n):
    """Free ports below those that the kernel gives to outgoing connections. Temporal also stores its ports in 16 bits with a sign."""
    ports = []
    while len(ports) < n:
        port = random.randrange(10000, 32768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # it is taken
        if port not in ports:
            ports.append(port)
    return ports


def wait_until(what, processes, ready):
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        processes.alive()
        if ready():
            return
        time.sleep(0.05)
    raise Failed(f"{what} is not ready after {READY_SECONDS} s; its logs are in {processes.dir}")


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except (OSError, urllib.error.URLError):
        return False


def call(command, **options):
    """Runs a command to its end, quietly unless it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(c) for c in command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout.strip()


# --- tools


class Tools:
    """Builds and fetches what the chosen engines need, by pinned versions (go.mod, package-lock.json), into a cache."""

    def __init__(self, cache, engines):
        self.cache, self.versions = cache, {}
        cache.mkdir(parents=True, exist_ok=True)
        self.go(HERE, "programs", ["./service", "./restate", "./temporal", "./dbos", "./sagalog"])
        modules = (HERE / "go.mod").read_text()
        version = lambda module: re.search(re.escape(module) + r" (v\S+)", modules).group(1)
        if "restate" in engines:
            self.restate()
            self.versions["restate"] = f"{call([self.restate_server, '--version'])}, sdk-go {version('github.com/restatedev/sdk-go')}"
        if {"temporal", "dbos"} & set(engines):
            self.postgres = self.find_postgres()
            postgres = re.search(r"[\d.]+", call([self.postgres / "postgres", "--version"])).group()
            self.versions["dbos"] = f"dbos-transact-golang {version('github.com/dbos-inc/dbos-transact-golang')}, PostgreSQL {postgres}"
        if "temporal" in engines:
            server = re.search(r"go.temporal.io/server (v\S+)", (HERE / "temporal/server/go.mod").read_text()).group(1)
            self.go(HERE / "temporal/server", f"temporal-{server}", ["go.temporal.io/server/cmd/server", "go.temporal.io/server/cmd/tools/sql"])
            self.versions["temporal"] = f"temporal-server {server}, sdk {version('go.temporal.io/sdk')}, PostgreSQL {postgres}"
        if any(e.startswith("sagalog") for e in engines):
            self.go(REPOSITORY, "engine", ["./cmd/sagalog"])
            commit = call(["git", "describe", "--always", "--dirty"], cwd=REPOSITORY)
            self.versions["sagalog"] = self.versions["sagalog-page-cache"] = f"commit {commit}"
            kafka = re.search(r"kafka_2.13.*?<version>(.*?)<", (REPOSITORY / "deploy/kafka/pom.xml").read_text(), re.S).group(1)
            self.versions["sagalog-kafka"] = f"commit {commit}, Apache Kafka {kafka}"
        if "sagalog-kafka" in engines:
            call([REPOSITORY / "deploy/kafka/kafka.sh", "fetch"])

    def go(self, module, name, packages):
        print(f"building {name}", file=sys.stderr)
        (self.cache / name).mkdir(exist_ok=True)
        call(["go", "build", "-buildvcs=false", "-o", str(self.cache / name) + "/", *packages], cwd=module)

    def restate(self):
        locked = (HERE / "restate/package-lock.json").read_text()
        version = re.search(r'restate-server": "([\d.]+)"', locked).group(1)
        dir = self.cache / f"restate-{version}"
        if not dir.exists():
            print(f"fetching restate-server {version}", file=sys.stderr)
            tmp = pathlib.Path(tempfile.mkdtemp(dir=self.cache))
            for f in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "restate" / f, tmp)
            call(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=tmp)
            tmp.rename(dir)
        found = list(dir.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
        if not found:
            raise Failed(f"the npm package has no restate-server for this machine: {dir}")
        self.restate_server = found[0]

    @staticmethod
    def find_postgres():
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parent.parent.name))
        if found:
            return found[-1].parent
        if shutil.which("pg_config"):
            return pathlib.Path(call(["pg_config", "--bindir"]))
        raise Failed("PostgreSQL is missing: apt-get install postgresql")

    def program(self, name):
        return self.cache / "programs" / name


# --- engines: each starts its processes and returns the environment of its client


def start_postgres(run):
    """A separate cluster with Debian's defaults, so with fsync and synchronous_commit, but with memory and WAL for a server under load."""
    (port,) = free_ports(1)
    data, user = run.dir / "data", None
    if os.geteuid() == 0:  # as root it refuses to start
        user = "postgres"
        data.mkdir()
        shutil.chown(data, user, user)
        for d in (run.dir, *run.dir.parents):
            if d.stat().st_mode & 0o001 == 0:
                d.chmod(0o711)
    call([run.tools.postgres / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
         **({"user": user, "cwd": "/"} if user else {}))
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "max_connections": 300,
                "shared_buffers": "1GB", "max_wal_size": "4GB"}
    flags = [f for k, v in settings.items() for f in ("-c", f"{k}={v}")]
    run.engine("postgres", [run.tools.postgres / "postgres", "-D", data, *flags], user=user)
    psql = [run.tools.postgres / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]
    wait_until("PostgreSQL", run.processes, lambda: subprocess.run(psql, check=False).returncode == 0)
    return port


def start_restate(run):
    ingress, admin, node, worker = free_ports(4)
    run.engine("worker", [run.tools.program("restate"), "worker"], env={"LISTEN": f"127.0.0.1:{worker}"})
    run.engine("restate", [run.tools.restate_server, "--no-logo", "--listen-mode", "tcp", "--base-dir", run.dir / "data", "--log-filter", "warn",
                           "--bind-address", f"127.0.0.1:{node}", "--advertised-address", f"http://127.0.0.1:{node}/"],
               env={"RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}", "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
                    "RESTATE_DISABLE_TELEMETRY": "true"})
    wait_until("the worker", run.processes, lambda: listens(worker))
    wait_until("Restate", run.processes, lambda: answers(f"http://127.0.0.1:{admin}/health") and answers(f"http://127.0.0.1:{ingress}/restate/health"))
    body = json.dumps({"uri": f"http://127.0.0.1:{worker}"}).encode()
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{admin}/deployments", body, {"Content-Type": "application/json"}), timeout=60)
    return "restate", {"ENGINE_URL": f"http://127.0.0.1:{ingress}"}


def start_temporal(run):
    postgres = start_postgres(run)
    tools = next(run.tools.cache.glob("temporal-*"))
    for database, schema in (("temporal", "temporal"), ("temporal_visibility", "visibility")):
        sql = [tools / "sql", "--ep", "127.0.0.1", "-p", str(postgres), "-u", "postgres", "--pl", "postgres12", "--db", database]
        call([*sql, "create"])
        call([*sql, "setup-schema", "-v", "0.0"])
        call([*sql, "update-schema", "--schema-name", f"postgresql/v12/{schema}"])
    ports = free_ports(9)
    settings = (HERE / "temporal/server.yaml").read_text().replace("SHARDS", str(run.options.shards)).replace("POSTGRES", str(postgres))
    settings = settings.replace("LIMITS", str(HERE / "temporal/limits.yaml"))
    for i, port in enumerate(ports, 1):
        settings = settings.replace(f"PORT{i}", str(port))
    (run.dir / "config").mkdir()
    (run.dir / "config/development.yaml").write_text(settings)
    run.engine("temporal", [tools / "server", "--root", run.dir, "--env", "development", "start"])
    wait_until("Temporal", run.processes, lambda: listens(ports[0]))
    engine = {"ENGINE": f"127.0.0.1:{ports[0]}"}
    call([run.tools.program("temporal"), "namespace"], env={**os.environ, **engine})
    run.engine("worker", [run.tools.program("temporal"), "worker"], env=engine)
    return "temporal", engine


def start_dbos(run):
    postgres = start_postgres(run)
    url = f"postgres://postgres@127.0.0.1:{postgres}/postgres?sslmode=disable&pool_max_conns={run.options.pool}"
    (port,) = free_ports(1)
    run.engine("worker", [run.tools.program("dbos"), "worker"], env={"LISTEN": f"127.0.0.1:{port}", "DATABASE_URL": url})
    wait_until("DBOS", run.processes, lambda: listens(port))
    return "dbos", {"ENGINE_URL": f"http://127.0.0.1:{port}"}


def start_sagalog(run, fsync=True):
    http, kafka = free_ports(2)
    run.engine("sagalog", [run.tools.cache / "engine/sagalog", "dev", "--demo", "none", "--quiet", "--data", run.dir / "data", "--http",
                           f"127.0.0.1:{http}", "--kafka", f"127.0.0.1:{kafka}", "--workflows", HERE / "sagalog/workflows",
                           "--agents", HERE / "sagalog/agents", *(["--fsync"] if fsync else [])])
    wait_until("Sagalog", run.processes, lambda: answers(f"http://127.0.0.1:{http}/readyz"))
    return "sagalog", {"ENGINE_URL": f"http://127.0.0.1:{http}"}


def start_sagalog_kafka(run):
    (http,) = free_ports(1)
    (run.dir / "data").mkdir()
    run.engine("kafka", [REPOSITORY / "deploy/kafka/kafka.sh", "run", "--port", "0", "--dir", run.dir / "data/kafka"])
    bootstrap = run.dir / "data/kafka/bootstrap"
    wait_until("Apache Kafka", run.processes, bootstrap.exists)
    run.engine("sagalog", [run.tools.cache / "engine/sagalog", "serve", "--brokers", bootstrap.read_text().strip(), "--node", "n1", "--data",
                           run.dir / "data/n1", "--http", f"127.0.0.1:{http}", "--workflows", HERE / "sagalog/workflows",
                           "--agents", HERE / "sagalog/agents"])
    wait_until("Sagalog", run.processes, lambda: answers(f"http://127.0.0.1:{http}/readyz"))
    return "sagalog", {"ENGINE_URL": f"http://127.0.0.1:{http}"}


ENGINES = {
    "restate": (start_restate, "fsync"),
    "temporal": (start_temporal, "fsync"),
    "dbos": (start_dbos, "fsync"),
    "sagalog": (start_sagalog, "fsync"),
    "sagalog-page-cache": (lambda run: start_sagalog(run, fsync=False), "page cache"),
    "sagalog-kafka": (start_sagalog_kafka, "page cache"),
}
