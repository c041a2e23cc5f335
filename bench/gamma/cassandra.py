"""A Cassandra cluster on this machine: fetched, configured, started, stopped.

The nodes are the published jars of Maven Central on the Java of this machine. Each has an address
of its own (127.0.0.1 and on), a folder of its own, and a log of its virtual machine with the
monotonic clock, which is the clock of the workload.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

# What Cassandra's own start script opens for Java 11 and later; for 4.1 more than it says itself.
OPENED = [
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.sql/java.sql=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.module=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.math=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.nio.charset=ALL-UNNAMED",
    "--add-opens=java.base/java.nio.file.spi=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.math=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.vm=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
]

# Parallel: what survives is promoted at once, so that the small old generation fills up and is
# collected every few times, for which the world stops some hundred milliseconds. One thread,
# because the nodes share the processors of one machine.
COLLECTORS = {
    "G1": ["-XX:+UseG1GC"],
    "Parallel": ["-XX:+UseParallelGC", "-XX:-UseAdaptiveSizePolicy", "-XX:MaxTenuringThreshold=0",
                 "-XX:ParallelGCThreads=1"],
}

LOGBACK = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>${cassandra.logdir}/system.log</file>
    <encoder><pattern>%date{ISO8601} %-5level %logger{20} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""

YAML = """cluster_name: gamma
num_tokens: 1
initial_token: "{token}"
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: {address}
rpc_address: {address}
storage_port: {storage_port}
ssl_storage_port: {ssl_port}
native_transport_port: {native_port}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage_port}"
data_file_directories: ["{folder}/data"]
commitlog_directory: "{folder}/commitlog"
hints_directory: "{folder}/hints"
saved_caches_directory: "{folder}/caches"
cdc_raw_directory: "{folder}/cdc"
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 16MiB
commitlog_total_space: 512MiB
memtable_heap_space: {memtable_mb}MiB
memtable_offheap_space: {memtable_mb}MiB
key_cache_size: 4MiB
networking_cache_size: 16MiB
file_cache_size: 32MiB
"""

# Starting takes half a minute, and much longer where other programs have the processors.
START_TIMEOUT_S = 900


def fetch(version, folder, run=subprocess.run):
    """Copies the jars of a version of Cassandra into a folder, unless they are there."""
    jars = Path(folder) / f"cassandra-{version}"
    complete = jars / "complete"
    if not complete.exists():
        shutil.rmtree(jars, ignore_errors=True)
        pom = Path(__file__).parent / "jars" / "pom.xml"
        run(
            ["mvn", "-B", "-ntp", "-q", "-f", str(pom), f"-Dcassandra.version={version}",
             "dependency:copy-dependencies", f"-DoutputDirectory={jars.absolute()}"],
            check=True,
        )
        complete.touch()
    return jars


class Node:
    """One node: a process and its folder."""

    def __init__(self, index, folder):
        self.index = index
        self.address = f"127.0.0.{index + 1}"
        self.folder = Path(folder)
        self.process = None

    @property
    def vm_log(self):
        return self.folder / "vm.log"

    @property
    def agent_log(self):
        return self.folder / "coeval-read-hold.log"

    def signal(self, number):
        self.process.send_signal(number)

    def processor_seconds(self):
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cluster:
    """Nodes that are started together, and stopped at the end of a `with`."""

    def __init__(self, setup, jars, agent_jar, folder):
        """A setup has: nodes, collector, heap_mb, young_mb, memtable_mb, agent, nice, vm."""
        self.setup = setup
        self.jars = Path(jars)
        self.agent_jar = agent_jar
        self.folder = Path(folder)
        self.storage_port, self.native_port = free_ports(setup["nodes"])
        self.nodes = [
            Node(index, self.folder / f"node-{index + 1}") for index in range(setup["nodes"])
        ]

    def __enter__(self):
        try:
            self._start(self.nodes[0])
            self._await(self.nodes[0])
            for node in self.nodes[1:]:
                self._start(node)
            for node in self.nodes[1:]:
                self._await(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        running = [node for node in self.nodes if node.process is not None]
        for node in running:
            # A node that was stopped cannot end.
            node.process.send_signal(signal.SIGCONT)
            node.process.terminate()
        for node in running:
            try:
                node.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()

    def _start(self, node):
        node.folder.mkdir(parents=True)
        count = len(self.nodes)
        (node.folder / "logback.xml").write_text(LOGBACK)
        (node.folder / "cassandra.yaml").write_text(
            YAML.format(
                token=-(2**63) + 1 + node.index * (2**64 // count),
                address=node.address,
                storage_port=self.storage_port,
                ssl_port=self.storage_port + 1,
                native_port=self.native_port,
                folder=node.folder.absolute(),
                memtable_mb=self.setup["memtable_mb"],
            )
        )
        with open(node.folder / "output.log", "wb") as output:
            node.process = subprocess.Popen(
                self.command(node), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                cwd=node.folder,
            )

    def command(self, node):
        """The command line of a node."""
        setup = self.setup
        folder = node.folder.absolute()
        jamm = next(self.jars.glob("jamm-*.jar")).absolute()
        command = ["nice", "-n", str(setup["nice"]), "java"]
        command += COLLECTORS[setup["collector"]]
        command += [f"-Xms{setup['heap_mb']}m", f"-Xmx{setup['heap_mb']}m", "-XX:+AlwaysPreTouch",
                    "-XX:MaxDirectMemorySize=128m"]
        if setup["young_mb"]:
            command.append(f"-Xmn{setup['young_mb']}m")
        command += setup["vm"]
        command += [
            f"-Xlog:gc*,safepoint=info:file={folder}/vm.log:timenanos,level,tags:filecount=0",
            f"-javaagent:{jamm}",
        ]
        if setup["agent"] is not None:
            command.append(f"-javaagent:{self.agent_jar}={setup['agent']}")
        command += OPENED
        command += [
            "-Djdk.attach.allowAttachSelf=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Dcassandra.config=file://{folder}/cassandra.yaml",
            f"-Dcassandra.storagedir={folder}",
            f"-Dcassandra.logdir={folder}",
            f"-Dlogback.configurationFile=file://{folder}/logback.xml",
            "-Dcassandra.ring_delay_ms=5000",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra-foreground=yes",
            "-cp", f"{self.jars.absolute()}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        return command

    def _await(self, node):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if node.process.poll() is not None:
                break
            with socket.socket() as client:
                client.settimeout(1)
                if client.connect_ex((node.address, self.native_port)) == 0:
                    return
            time.sleep(0.25)
        tail = (node.folder / "output.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{node.address} did not start in {START_TIMEOUT_S} s:\n{tail}")


def free_ports(nodes):
    """A storage port (the one above it is taken by it, too) and a client port, free everywhere."""
    first = 20_000 + os.getpid() * 7 % 30_000
    for port in range(first, first + 500, 3):
        if all(
            is_free(f"127.0.0.{node + 1}", port + offset)
            for node in range(nodes)
            for offset in range(3)
        ):
            return port, port + 2
    raise RuntimeError("there are no three free ports in a row")


def is_free(address, port):
    with socket.socket() as server:
        try:
            server.bind((address, port))
        except OSError:
            return False
        return True
