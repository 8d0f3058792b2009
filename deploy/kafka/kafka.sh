#!/usr/bin/env bash
# A real Apache Kafka on this machine, for tests and for manual use. See `kafka.sh --help`.
#
# The broker is fetched once by Maven (pom.xml beside this file) into a cache. Each broker is a separate JVM that is both
# broker and controller (KRaft). Everything listens on 127.0.0.1. The settings are the broker's defaults, except for
# those that one machine needs (write_properties) and those of --set.
set -euo pipefail

readonly host=127.0.0.1
readonly up_seconds=150      # one broker takes 4 s, three take 7 s; on a machine that is ten times overloaded, ten times as long
readonly stop_seconds=60     # a broker hands over its partitions and closes its logs, which takes 1 to 3 s
readonly kill_seconds=10     # the kernel ends a process at once, unless its disk hangs
readonly port_tries=3        # another process may take a free port before the broker does
launched=()                  # by number, the processes that this shell started and that are not ready yet
readonly mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
version="$(sed -n '/kafka_2.13/,/<\/dependency>/s/.*<version>\(.*\)<\/version>.*/\1/p' "$here/pom.xml")"
readonly version
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/sagalog/kafka-$version"

fail() { echo "kafka.sh: $*" >&2; exit 1; }
usage_error() { echo "kafka.sh: $* (see kafka.sh --help)" >&2; exit 2; }

help() {
  cat <<END
A real Apache Kafka $version on this machine, for tests and for manual use. Needs Java 17 or later, and Maven the first time.

  kafka.sh run [options]      start it, print its address, end it with Ctrl-C
  kafka.sh up DIR [options]   start it in the background, in DIR, and return when it answers
  kafka.sh stop DIR N         stop broker N cleanly (SIGTERM) and wait until it has ended
  kafka.sh kill DIR N         kill -9 broker N
  kafka.sh start DIR N        start broker N again and wait until it answers
  kafka.sh down DIR [--now]   end all brokers that were started in DIR; --now kills them
  kafka.sh fetch              only fill the cache

Options of run and up:
  --brokers N      1 (the default) to 9. Three survive the loss of one, with replication factor 3 and min.insync.replicas 2.
  --port P         brokers listen on P, P+1, ..., and their controllers on the ports after those. Default 9192; 0 takes free ones.
  --set KEY=VALUE  a setting of the brokers; may be repeated. It overrides this script's settings.
  --sasl           clients must authenticate by $mechanisms. There are two users, admin and limited, with the
                   passwords \$KAFKA_ADMIN_PASSWORD and \$KAFKA_LIMITED_PASSWORD, or fixed ones. DIR/credentials has them.
  --acls           users other than admin may only do what an ACL allows. Needs --sasl.
  --tls            clients must use TLS. DIR/ca.pem has the authority that signed the certificate of $host.
  --dir DIR        (run) keep everything in DIR, and continue with it the next time. Default: a temporary directory.
  --until-eof      (run) also end, with kill -9, when standard input ends: for a program that may die itself.

\$KAFKA_OPTS has further options for the brokers' JVMs, such as -Xmx2g, or -XX:TieredStopAtLevel=4 for hours of heavy load.

Files in DIR: bootstrap (host:port,... of the brokers), broker-N.pid, broker-N.log, broker-N.properties, data-N/,
credentials, ca.pem. If DIR was used before, the brokers start with its data; --port and --set may differ.

Examples:
  kafka.sh run --brokers 3
  kafka.sh up /tmp/k --port 0 --set broker.session.timeout.ms=2000 && cat /tmp/k/bootstrap
  kafka.sh run --sasl --acls --tls --dir ./kafka
END
}

# --- the jars

# fetch fills the cache. The directory appears whole or not at all; of several callers one fetches and the others wait.
# Without flock each may fetch, and the first to finish wins.
fetch() {
  [[ ! -d "$cache" ]] || return 0
  command -v mvn >/dev/null || fail "Maven is needed once, to fetch Apache Kafka $version into $cache: install it (apt-get install maven)"
  mkdir -p "${cache%/*}"
  local lock=
  if command -v flock >/dev/null; then
    exec {lock}>"$cache.lock"
    flock "$lock"
    [[ ! -d "$cache" ]] || { exec {lock}>&-; return 0; }
  fi
  echo "fetching Apache Kafka $version by Maven into $cache" >&2
  local tmp
  tmp="$(mktemp -d "$cache.XXXXXX")"
  if ! mvn -B -q --strict-checksums -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$tmp" </dev/null >"$tmp/mvn.log" 2>&1; then
    tail -n 20 "$tmp/mvn.log" >&2
    rm -rf "$tmp"
    fail "Maven did not fetch Apache Kafka $version; what it said stands above"
  fi
  rm "$tmp/mvn.log"
  chmod 755 "$tmp"
  [[ -d "$cache" ]] || mv "$tmp" "$cache"
  rm -rf "$tmp"
  [[ -z "$lock" ]] || exec {lock}>&-
}

find_java() {
  java=java
  [[ -z "${JAVA_HOME:-}" ]] || java="$JAVA_HOME/bin/java"
  command -v "$java" >/dev/null || fail "Java is missing: install Java 17 or later (apt-get install openjdk-17-jre-headless)"
  local said
  said="$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;q')"
  [[ "$said" =~ ^[0-9]+$ ]] && ((said >= 17)) || fail "Apache Kafka $version needs Java 17 or later, $java is ${said:-unknown}"
}

# --- processes

# is_up N says whether the process of broker-N.pid runs and is still that broker. Process IDs are reused; a process that
# ended but was not waited for has no arguments; and one that was just launched may still be a copy of this shell, with
# the shell's arguments.
is_up() {
  local pid args
  pid="$(cat "$dir/broker-$1.pid" 2>/dev/null)" && [[ "$pid" =~ ^[0-9]+$ ]] || return 1
  if [[ "${launched[$1]-}" == "$pid" ]]; then
    kill -0 "$pid" 2>/dev/null || return 1
    return 0 # in a trap, a bare return would return the status from before the trap
  fi
  if [[ -d /proc/self ]]; then
    args="$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" || return 1
  else
    args="$(ps -ww -o args= -p "$pid" 2>/dev/null)" || return 1
  fi
  [[ "${args% }" == *"kafka.Kafka $dir/broker-$1.properties" ]]
}

# signal NAME N sends a signal to broker N if it runs.
signal() { ! is_up "$2" || kill "-$1" "$(cat "$dir/broker-$2.pid")" 2>/dev/null || true; }

# await_end N SECONDS waits until broker N has ended, and returns 1 if that takes longer.
await_end() {
  local deadline=$((SECONDS + $2))
  while is_up "$1"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
  rm -f "$dir/broker-$1.pid"
}

# launch N starts a broker without waiting. await_up skips the part of the log that an earlier run wrote.
#
# Only the JVM's quick compiler is used, because these clusters live for minutes: a start takes 2.6 s of CPU instead of
# 4.4, and half a minute at 1,000 records a second takes half the CPU. Heavy load over hours needs the other compiler too.
launch() {
  local log="$dir/broker-$1.log"
  touch "$log"
  wc -c <"$log" | tr -d ' ' >"$dir/broker-$1.began"
  # shellcheck disable=SC2086 # KAFKA_OPTS has several words
  "$java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.showDateTime=true \
    -Dorg.slf4j.simpleLogger.dateTimeFormat='yyyy-MM-dd HH:mm:ss.SSS' ${KAFKA_OPTS-} -cp "$cache/*" \
    kafka.Kafka "$dir/broker-$1.properties" </dev/null >>"$log" 2>&1 &
  launched[$1]=$!
  echo $! >"$dir/broker-$1.pid"
}

log_since_start() { tail -c "+$(($(cat "$dir/broker-$1.began") + 1))" "$dir/broker-$1.log"; }

# await_up N returns when a broker logs that it is ready: it has joined the cluster and opened its port.
await_up() {
  local deadline=$((SECONDS + up_seconds))
  until log_since_start "$1" | grep 'Kafka Server started' >/dev/null; do # -q would end early and break the pipe
    is_up "$1" || return 1
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
  launched[$1]=
}

# explain N prints why a broker did not start.
explain() {
  local busy
  busy="$(log_since_start "$1" | sed -n 's/.*bind to \([^ ]*\): Address already in use.*/\1/p')"
  if [[ -n "$busy" ]]; then
    echo "kafka.sh: broker $1 cannot listen on ${busy%%$'\n'*}: the port is in use. Stop the process that uses it, or choose another --port" >&2
    return
  fi
  echo "kafka.sh: broker $1 did not start; its log is $dir/broker-$1.log, with these errors:" >&2
  log_since_start "$1" | grep -E ' (ERROR|FATAL) |^[a-zA-Z.]*(Exception|Error):|^Error' | tail -n 15 >&2 || true
}

# --- ports

listens() { (exec 3<>"/dev/tcp/$host/$1") 2>/dev/null; }

# choose_ports sets port[N] and controller[N]. The script chooses ports below those that the system gives to outgoing
# connections, so that no connection takes one while a broker is down for a moment.
choose_ports() {
  local n below=32768
  port=() controller=()
  if ((first_port)); then
    for ((n = 1; n <= brokers; n++)); do
      port[n]=$((first_port + n - 1))
      controller[n]=$((first_port + brokers + n - 1))
    done
    for n in "${port[@]}" "${controller[@]}"; do
      ! listens "$n" || fail "port $n is in use: stop what listens there (ss -ltnp 'sport = :$n'), or choose another --port (0 takes free ones)"
    done
    return
  fi
  [[ ! -r /proc/sys/net/ipv4/ip_local_port_range ]] || read -r below _ </proc/sys/net/ipv4/ip_local_port_range
  ((below > 12000)) || below=32768
  local chosen=()
  while ((${#chosen[@]} < 2 * brokers)); do
    n=$((10000 + (RANDOM * 32768 + RANDOM) % (below - 10000)))
    [[ " ${chosen[*]-} " != *" $n "* ]] && ! listens "$n" && chosen+=("$n")
  done
  for ((n = 1; n <= brokers; n++)); do
    port[n]=${chosen[n - 1]}
    controller[n]=${chosen[brokers + n - 1]}
  done
}

# --- the contents of DIR

# write_properties N writes the settings of broker N. They differ from the broker's defaults only where one machine needs
# that, such as for fewer brokers than the three copies of the internal topics.
write_properties() {
  local n voters='' copies=$((brokers < 3 ? brokers : 3)) client=PLAINTEXT control=PLAINTEXT
  for ((n = 1; n <= brokers; n++)); do voters+="${voters:+,}$n@$host:${controller[n]}"; done
  ((!tls)) || client=SSL
  if ((sasl)); then
    client="SASL_$client"
    control=SASL_PLAINTEXT
  fi
  {
    cat <<END
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=CLIENT://$host:${port[$1]},CONTROLLER://$host:${controller[$1]}
advertised.listeners=CLIENT://$host:${port[$1]}
listener.security.protocol.map=CLIENT:$client,CONTROLLER:$control
inter.broker.listener.name=CLIENT
log.dirs=$dir/data-$1
offsets.topic.replication.factor=$copies
transaction.state.log.replication.factor=$copies
transaction.state.log.min.isr=$((copies < 2 ? copies : 2))
share.coordinator.state.topic.replication.factor=$copies
share.coordinator.state.topic.min.isr=$((copies < 2 ? copies : 2))
END
    ((!sasl)) || sasl_properties
    ((!tls)) || cat <<END
ssl.keystore.type=PEM
ssl.keystore.location=$dir/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/ca.pem
END
    # If a key occurs twice, the last value counts.
    ((${#settings[@]} == 0)) || printf '%s\n' "${settings[@]}"
  } >"$dir/broker-$1.properties"
}

# The brokers connect to each other as admin.
sasl_properties() {
  local plain='org.apache.kafka.common.security.plain.PlainLoginModule required'
  local scram='org.apache.kafka.common.security.scram.ScramLoginModule required;'
  plain+=" username=\"admin\" password=\"$admin_password\" user_admin=\"$admin_password\" user_limited=\"$limited_password\";"
  cat <<END
sasl.enabled.mechanisms=$mechanisms
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config=$plain
listener.name.client.scram-sha-256.sasl.jaas.config=$scram
listener.name.client.scram-sha-512.sasl.jaas.config=$scram
listener.name.controller.plain.sasl.jaas.config=$plain
listener.name.controller.sasl.enabled.mechanisms=PLAIN
END
  ((!acls)) || cat <<END
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
allow.everyone.if.no.acl.found=false
END
}

write_credentials() {
  ((sasl)) || return 0
  (umask 077 && printf '%s\n' "admin=$admin_password" "limited=$limited_password" >"$dir/credentials")
}

# write_certificates creates an authority, and a certificate for this machine that it signs.
write_certificates() {
  ((tls)) || return 0
  command -v openssl >/dev/null || fail "--tls needs openssl: install it (apt-get install openssl)"
  local tmp="$dir/tls"
  (
    umask 077
    mkdir -p "$tmp"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=sagalog test authority' \
      -keyout "$tmp/ca.key" -out "$dir/ca.pem" &&
      openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$host" -keyout "$tmp/key.pem" -out "$tmp/request.pem" &&
      openssl x509 -req -days 3650 -in "$tmp/request.pem" -CA "$dir/ca.pem" -CAkey "$tmp/ca.key" -CAcreateserial \
        -extfile <(echo "subjectAltName=IP:$host,DNS:localhost") -out "$tmp/cert.pem" &&
      cat "$tmp/key.pem" "$tmp/cert.pem" "$dir/ca.pem" >"$dir/broker.pem"
  ) >"$dir/tls.log" 2>&1 || { cat "$dir/tls.log" >&2; fail "openssl did not make the certificates"; }
  rm -rf "$tmp" "$dir/tls.log"
}

# format_data writes each broker's empty directory; a broker refuses one that was not formatted.
format_data() {
  local n id users=() pids=()
  id="$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')"
  id="A${id:1}" # an ID that begins with a dash would be parsed as an option
  if ((sasl)); then
    for n in SCRAM-SHA-256 SCRAM-SHA-512; do
      users+=(--add-scram "$n=[name=admin,password=$admin_password]" --add-scram "$n=[name=limited,password=$limited_password]")
    done
  fi
  for ((n = 1; n <= brokers; n++)); do
    "$java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp "$cache/*" kafka.tools.StorageTool format -t "$id" \
      -c "$dir/broker-$n.properties" "${users[@]}" </dev/null >"$dir/format-$n.log" 2>&1 &
    pids+=($!)
  done
  for ((n = 1; n <= brokers; n++)); do
    wait "${pids[n - 1]}" || { grep -v -e ' INFO ' -e '^[[:space:]]*at ' "$dir/format-$n.log" | tail -n 15 >&2; fail "the directory of broker $n was not formatted; what was said stands above"; }
    rm "$dir/format-$n.log"
  done
}

# made prints the options with which a directory was created and which cannot change later.
made() { printf '%s\n' "version=$version" "brokers=$brokers" "sasl=$sasl" "acls=$acls" "tls=$tls"; }

# --- commands

# bring_up starts all brokers in $dir, whose options were read. On return they answer.
bring_up() {
  local n try
  for ((n = 1; n <= 9; n++)); do
    ! is_up "$n" || fail "broker $n in $dir runs already: kafka.sh down $dir"
  done
  if [[ -f "$dir/made" && "$(cat "$dir/made")" != "$(made)" ]]; then
    fail "$dir was made with other options ($(tr '\n' ' ' <"$dir/made")): use these, or another directory"
  fi
  for ((try = 1; ; try++)); do
    choose_ports
    try_up && break
    ((first_port == 0 && try < port_tries)) && grep -q 'Address already in use' "$dir"/broker-*.log || {
      for n in "${failed[@]}"; do explain "$n"; done
      exit 1
    }
  done
  local all=("${port[@]/#/$host:}")
  (IFS=,; echo "${all[*]}") >"$dir/bootstrap.new"
  mv "$dir/bootstrap.new" "$dir/bootstrap"
}

# try_up starts all brokers. If one does not start, it ends the others, sets failed and returns 1.
try_up() {
  local n
  failed=()
  for ((n = 1; n <= brokers; n++)); do write_properties "$n"; done
  if [[ ! -f "$dir/made" ]]; then
    rm -rf "$dir"/data-*
    write_credentials
    write_certificates
    format_data
    made >"$dir/made"
  fi
  for ((n = 1; n <= brokers; n++)); do launch "$n"; done
  for ((n = 1; n <= brokers; n++)); do await_up "$n" || { failed+=("$n"); break; }; done
  ((${#failed[@]} > 0)) || return 0
  end_all KILL
  return 1
}

# end_all SIGNAL ends every broker that was started in $dir.
end_all() {
  local n left=()
  for ((n = 1; n <= 9; n++)); do ! is_up "$n" || { left+=("$n"); signal "$1" "$n"; }; done
  for n in "${left[@]}"; do
    # The last brokers of a cluster have none to hand over to, and would wait for a majority of controllers.
    [[ "$1" == KILL ]] || await_end "$n" 5 || signal KILL "$n"
    await_end "$n" "$kill_seconds" || fail "broker $n (process $(cat "$dir/broker-$n.pid")) does not end"
  done
}

read_options() {
  brokers=1 first_port=9192 sasl=0 acls=0 tls=0 settings=() until_eof=0 keep=
  admin_password="${KAFKA_ADMIN_PASSWORD:-admin-secret}"
  limited_password="${KAFKA_LIMITED_PASSWORD:-limited-secret}"
  while (($#)); do
    case "$1" in
      --brokers | --port | --set | --dir) (($# > 1)) || usage_error "$1 needs a value" ;;
    esac
    case "$1" in
      --brokers) brokers="$2"; shift ;;
      --port) first_port="$2"; shift ;;
      --set) settings+=("$2"); shift ;;
      --dir) keep="$2"; shift ;;
      --sasl) sasl=1 ;;
      --acls) acls=1 ;;
      --tls) tls=1 ;;
      --until-eof) until_eof=1 ;;
      *) usage_error "unknown option $1" ;;
    esac
    shift
  done
  [[ "$brokers" =~ ^[1-9]$ ]] || usage_error "--brokers must be 1 to 9, not $brokers"
  [[ "$first_port" =~ ^[0-9]{1,5}$ ]] && ((first_port + 2 * brokers <= 65536)) || usage_error "--port must be a port or 0, not $first_port"
  ((!acls || sasl)) || usage_error "--acls needs --sasl: without it nobody has a name"
  local s
  for s in "${settings[@]}"; do
    [[ "$s" =~ ^[a-z0-9.-]+=[^$'\n']*$ ]] || usage_error "--set must be KEY=VALUE, not $s"
  done
  for s in "$admin_password" "$limited_password"; do
    [[ "$s" =~ ^[A-Za-z0-9._~-]+$ ]] || usage_error "a password may hold letters, digits and . _ ~ - only"
  done
}

# use_dir DIR makes $dir absolute, since the arguments of a broker's process must be the same from everywhere.
use_dir() {
  [[ -n "$1" && "$1" != -* ]] || usage_error "a directory is missing"
  [[ ! "$1" =~ [[:space:]] ]] || fail "the directory $1 has a blank in its name, which the broker's files cannot hold"
  mkdir -p "$1"
  dir="$(cd "$1" && pwd -P)"
}

# known_broker DIR N checks that DIR has a broker N.
known_broker() {
  [[ -f "$1/made" ]] || fail "$1 holds no cluster of kafka.sh"
  use_dir "$1"
  [[ "$2" =~ ^[1-9]$ && -f "$dir/broker-$2.properties" ]] || fail "there is no broker $2 in $dir"
}

command_up() {
  use_dir "${1-}"
  read_options "${@:2}"
  [[ -z "$keep" && "$until_eof" == 0 ]] || usage_error "--dir and --until-eof belong to run"
  find_java
  fetch
  trap '(($? == 0)) || end_all KILL' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  bring_up
  cat "$dir/bootstrap"
}

command_run() {
  read_options "$@"
  find_java
  fetch
  how=TERM # global, because ending runs after this function has returned
  if [[ -n "$keep" ]]; then
    use_dir "$keep"
  else
    use_dir "$(mktemp -d "${TMPDIR:-/tmp}/sagalog-kafka.XXXXXX")"
    how=KILL # the directory will be removed, so nothing needs to be closed
  fi
  ending() {
    trap '' INT TERM HUP PIPE # the reader of the output may be gone
    end_all "$how"
    [[ -n "$keep" ]] || rm -rf "$dir"
  }
  trap ending EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  bring_up
  echo "Apache Kafka $version, $brokers broker(s)"
  echo "directory $dir"
  ((!sasl)) || echo "passwords $dir/credentials"
  ((!tls)) || echo "authority $dir/ca.pem"
  echo "bootstrap $(cat "$dir/bootstrap")"
  if ((until_eof)); then
    while read -r _; do :; done
    how=KILL
    return
  fi
  if [[ -n "$keep" ]]; then echo "Ctrl-C ends it, and keeps the directory."; else echo "Ctrl-C ends it, and removes the directory."; fi
  while :; do
    sleep 3600 &
    wait $! || true
  done
}

command_start() {
  known_broker "$1" "$2"
  ! is_up "$2" || fail "broker $2 runs already"
  find_java
  fetch
  trap '(($? == 0)) || signal KILL "'"$2"'"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  launch "$2"
  await_up "$2" || { explain "$2"; exit 1; }
}

command_stop() {
  known_broker "$1" "$2"
  is_up "$2" || fail "broker $2 does not run"
  signal TERM "$2"
  await_end "$2" "$stop_seconds" || fail "broker $2 does not end within $stop_seconds s: kafka.sh kill $dir $2"
}

command_kill() {
  known_broker "$1" "$2"
  is_up "$2" || fail "broker $2 does not run"
  signal KILL "$2"
  await_end "$2" "$kill_seconds" || fail "broker $2 does not end"
}

command_down() {
  [[ -d "${1-}" ]] || fail "there is no directory ${1-}"
  [[ "${2-}" == "" || "$2" == --now ]] || usage_error "unknown option $2"
  use_dir "$1"
  if [[ "${2-}" == --now ]]; then end_all KILL; else end_all TERM; fi
}

for word; do
  [[ "$word" != --help && "$word" != -h ]] || { help; exit 0; }
done
case "${1-}" in
  run | up) "command_$1" "${@:2}" ;;
  start | stop | kill)
    (($# == 3)) || usage_error "$1 needs a directory and the number of a broker"
    "command_$1" "$2" "$3"
    ;;
  down) command_down "${@:2}" ;;
  fetch) find_java; fetch; echo "$cache" ;;
  help) help ;;
  "") help >&2; exit 2 ;;
  *) usage_error "no command $1" ;;
esac
