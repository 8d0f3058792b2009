package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
)

// The checks of this machine.
const (
	checkAgents    = "agents"
	checkWorkflows = "workflows"
	checkData      = "data"
	checkHTTP      = "http"
	checkClock     = "clock"
)

// localCheck checks what serve needs on this machine.
type localCheck struct {
	*serveConfig
	// starting says that serve runs the checks. It cannot use a directory that any process is using.
	starting bool
	now      func() time.Time
	findings []doctor.Finding
	// engine is the URL of the API of the engine that uses the data directory, or "".
	engine string
	// kept is the ID of the namespace whose state is in the data directory, or "".
	kept string
	// namespaceID and made are the ID and the number of partitions of the namespace on the brokers; made is 0 if there is no
	// namespace.
	namespaceID string
	made        int32
}

func (l *localCheck) add(check string, status doctor.Status, what, remedy string) {
	l.findings = append(l.findings, doctor.Finding{Check: check, Status: status, What: what, Remedy: remedy})
}

// agents reads --agents and returns the names of the bound agents.
func (l *localCheck) agents() []string {
	if !l.roles.agent || l.member.agents == "" {
		return nil
	}
	b := newBindings()
	defer b.close()
	if secret, err := l.callbacks.secret(); err != nil {
		l.add(checkAgents, doctor.StatusFail, err.Error(), "give a file with the secret that the other processes have too")
		return nil
	} else if secret != "" {
		b.reports = new(reports)
	}
	if err := b.folder(l.member.agents); err != nil {
		l.findings = append(l.findings, agentsFault(err))
		return nil
	}
	l.add(checkAgents, doctor.StatusOK, fmt.Sprintf("%s bound in %s", cli.Counted(len(b.names()), "agent"), l.member.agents), "")
	return b.names()
}

// workflows reads --workflows.
func (l *localCheck) workflows() {
	if l.serveConfig.workflows == "" {
		return
	}
	n, err := checkDefinitions(l.serveConfig.workflows)
	if err != nil {
		l.add(checkWorkflows, doctor.StatusFail, err.Error(), "correct the files of --workflows")
		return
	}
	l.add(checkWorkflows, doctor.StatusOK, fmt.Sprintf("%s in %s can be applied", cli.Counted(n, "workflow"), l.serveConfig.workflows), "")
}

// data looks at the data directory.
func (l *localCheck) data() {
	if l.roles.agentOnly() {
		return
	}
	dir := l.member.data
	if err := serveDirectory(dir); err != nil {
		l.add(checkData, doctor.StatusFail, err.Error(), "give a directory that is empty or does not exist yet (--data)")
		return
	}
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		l.parent(dir)
		return
	}
	if err == nil && !info.IsDir() {
		l.add(checkData, doctor.StatusFail, "the data directory "+dir+" is a file, not a directory", "give a directory (--data)")
		return
	}
	if err := writable(dir); err != nil {
		l.add(checkData, doctor.StatusFail, "the data directory cannot be written: "+err.Error(), "let this user write it, or give another one (--data)")
		return
	}
	if err := embedded.LockFree(filepath.Join(dir, lockFile)); err != nil {
		l.locked(err)
		return
	}
	if !l.space(dir, dir) || !l.state(filepath.Join(dir, "state")) {
		return
	}
	l.add(checkData, doctor.StatusOK, "the data directory "+dir+" can be written and is free", "")
}

// The free space of a disk.
const (
	// leastFree is the space that the state store needs to begin: a memtable and its log, twice.
	leastFree = 128 << 20
	// littleFree is so little that thousands of tasks a second soon use it up, and a full disk ends the process.
	littleFree = 1 << 30
)

// space checks the disk of a data directory. on is an existing directory: dir, or the one in which dir will be created.
func (l *localCheck) space(dir, on string) bool {
	f := spaceOf(dir, on)
	if f.Status != doctor.StatusOK {
		l.findings = append(l.findings, f)
	}
	return f.Status != doctor.StatusFail
}

func spaceOf(dir, on string) doctor.Finding {
	free, err := projector.FreeBytes(on)
	if err != nil {
		return doctor.Finding{Check: checkData, Status: doctor.StatusOK} // if the free space is unknown, there is nothing to report
	}
	return judgedSpace(dir, free)
}

func judgedSpace(dir string, free uint64) doctor.Finding {
	f := doctor.Finding{Check: checkData, Status: doctor.StatusOK}
	what := fmt.Sprintf("the disk of the data directory %s has %d MiB left", dir, free>>20)
	switch {
	case free < leastFree:
		f.Status, f.What = doctor.StatusFail, fmt.Sprintf("%s, and it needs at least %d MiB", what, leastFree>>20)
		f.Remedy = "make room there, or give a directory on another disk (--data)"
	case free < littleFree:
		f.Status, f.What, f.Remedy = doctor.StatusWarn, what, "make room there: a full disk ends the process"
	}
	return f
}

// state checks which namespace the state belongs to, and whether this version can read it. It changes nothing.
func (l *localCheck) state(dir string) bool {
	kept, err := projector.Inspect(dir)
	switch {
	case errors.Is(err, projector.ErrNewer):
		l.add(checkData, doctor.StatusFail, err.Error(), "run the newer version of sagalog, or give another directory (--data)")
		return false
	case errors.Is(err, projector.ErrFormat), errors.Is(err, projector.ErrDamaged):
		l.add(checkData, doctor.StatusWarn, err.Error(), "nothing: the next start rebuilds the state from the log, which takes longer")
	case err != nil:
		l.add(checkData, doctor.StatusFail, err.Error(), "give another directory (--data), or let this user read "+dir)
		return false
	}
	l.kept = kept
	return true
}

// known compares the data directory with the namespace on the brokers: the state of another namespace comes from another log.
func (l *localCheck) known(exists bool) []doctor.Finding {
	if l.kept == "" || l.roles.agentOnly() {
		return nil
	}
	f := doctor.Finding{Check: checkData, Status: doctor.StatusFail,
		Remedy: "give the --brokers and the --namespace that it belongs to, or another data directory (--data): an empty one is filled from the log"}
	switch {
	case !exists:
		f.What = fmt.Sprintf("the data directory %s holds the state of the namespace with the ID %s, and these brokers have no namespace %s", l.member.data, l.kept, l.namespace)
	case l.kept != l.namespaceID:
		f.What = fmt.Sprintf("the data directory %s holds the state of the namespace with the ID %s, and namespace %s of these brokers has the ID %s",
			l.member.data, l.kept, l.namespace, l.namespaceID)
	default:
		return nil
	}
	return []doctor.Finding{f}
}

// need returns what this process needs of the cluster.
func (l *localCheck) need(cluster *kafka.Cluster, agents []string) doctor.Need {
	return doctor.Need{
		Topics: kafka.Topics{Namespace: l.namespace}, Agents: agents, Partitions: l.partitions, PartitionsSet: l.partitionsSet,
		Owner: l.roles.node.Owner, API: l.roles.node.API, Projector: l.roles.node.Projector, Webhook: l.webhookFlags.url != "",
		Known: l.known,
		Made: func(ctx context.Context) (int32, error) {
			ns, err := node.ReadNamespace(ctx, cluster, l.namespace)
			var empty *kafka.OutOfRangeError
			if errors.As(err, &empty) || errors.Is(err, kafka.ErrNoRecord) || errors.Is(err, kafka.ErrUnknownTopic) {
				return 0, nil
			}
			if err == nil && ns.Format > events.FormatVersion {
				err = fmt.Errorf("it has format %d, this version reads %d: %w", ns.Format, events.FormatVersion, events.ErrReaderTooOld)
			}
			l.namespaceID, l.made = ns.ID, ns.Partitions
			return ns.Partitions, err
		},
	}
}

// existing returns dir, or the nearest directory above it that exists.
func existing(dir string) string {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			return at
		}
	}
}

func (l *localCheck) parent(dir string) {
	above := existing(dir)
	if err := writable(above); err != nil {
		l.add(checkData, doctor.StatusFail, "the data directory "+dir+" cannot be made: "+err.Error(), "let this user write "+above+", or give another directory (--data)")
		return
	}
	if !l.space(dir, above) {
		return
	}
	l.add(checkData, doctor.StatusOK, "the data directory "+dir+" does not exist yet: the first start creates it", "")
}

// probePrefix is the prefix of the name of the file by which doctor finds out whether it can write.
const probePrefix = ".sagalog-doctor-"

// writable checks that files can be created in a directory. It leaves nothing behind.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, probePrefix)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// locked reports who uses the data directory: a running engine is only a warning, and anything else a failure.
func (l *localCheck) locked(err error) {
	var at endpoints
	text, _ := os.ReadFile(filepath.Join(l.member.data, endpointsFile)) // without the file, no node answers below
	if !l.starting && json.Unmarshal(text, &at) == nil && alive(at.HTTP) {
		l.engine = at.HTTP
		l.add(checkData, doctor.StatusWarn, fmt.Sprintf("node %s runs in the data directory %s, with its API at %s", at.Node, l.member.data, at.HTTP),
			"give another directory to start a second process (--data)")
		return
	}
	what, _, _ := strings.Cut(err.Error(), ": stop that process") // the remedy says that
	l.add(checkData, doctor.StatusFail, what, "stop that process, or give another directory (--data)")
}

// aliveWait bounds a question to an engine on this machine.
const aliveWait = 2 * time.Second

func alive(api string) bool {
	if addr, secure := strings.CutPrefix(api, "https://"); secure { // which certificates to trust is not known here
		conn, err := net.DialTimeout("tcp", addr, aliveWait)
		return err == nil && conn.Close() == nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), aliveWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/healthz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return errors.Join(res.Body.Close()) == nil && res.StatusCode == http.StatusOK
}

// earliest is about the time when this version was written. A correct clock shows no earlier time.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock checks that the clock of this machine is plausible. The check of the log finds smaller errors.
func (l *localCheck) clock() {
	if now := l.now(); now.Before(earliest) {
		l.add(checkClock, doctor.StatusFail, "the clock of this machine says "+now.UTC().Format(time.RFC3339)+": timers and deadlines would be wrong by years",
			"set the clock (NTP)")
	}
}
