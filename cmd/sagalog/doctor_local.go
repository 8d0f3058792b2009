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
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// The checks of this machine.
const (
	checkAgents = "agents"
	checkData   = "data"
	checkHTTP   = "http"
)

// localCheck looks at what serve needs beside the cluster.
type localCheck struct {
	*member
	findings []kafka.Finding
	// engine is the URL of the API of the engine that has the data directory, "" for none.
	engine string
}

func (l *localCheck) add(check string, status kafka.Status, what, remedy string) {
	l.findings = append(l.findings, kafka.Finding{Check: check, Status: status, What: what, Remedy: remedy})
}

// agents reads --agents and returns the names of those that are bound.
func (l *localCheck) agents() []string {
	if !l.roles.agent || l.member.agents == "" {
		return nil
	}
	b := newBindings()
	defer b.close()
	if err := b.folder(l.member.agents); err != nil {
		l.add(checkAgents, kafka.StatusFail, err.Error(), "correct the files of --agents")
		return nil
	}
	l.add(checkAgents, kafka.StatusOK, fmt.Sprintf("%d agents are bound in %s", len(b.names()), l.member.agents), "")
	return b.names()
}

// data looks at the data directory; namespace is the ID of the cluster's, "" where there is none.
func (l *localCheck) data(namespace string) {
	if l.roles.agentOnly() {
		return
	}
	dir := l.member.data
	if err := serveDirectory(dir); err != nil {
		l.add(checkData, kafka.StatusFail, err.Error(), "give another directory (--data)")
		return
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		l.parent(dir)
		return
	}
	if err := writable(dir); err != nil {
		l.add(checkData, kafka.StatusFail, "the data directory cannot be written: "+err.Error(), "let this user write it, or give another one (--data)")
		return
	}
	if err := kafka.LockFree(filepath.Join(dir, lockFile)); err != nil {
		l.locked(err)
		return
	}
	if err := fits(dir, namespace); err != nil {
		l.add(checkData, kafka.StatusFail, err.Error(), "give the data directory of this namespace, or an empty one (--data): state is folded from the log again")
		return
	}
	l.add(checkData, kafka.StatusOK, "the data directory "+dir+" can be written and is free", "")
}

func (l *localCheck) parent(dir string) {
	above := filepath.Dir(filepath.Clean(dir))
	for {
		_, err := os.Stat(above)
		if err == nil || above == filepath.Dir(above) {
			break
		}
		above = filepath.Dir(above)
	}
	if err := writable(above); err != nil {
		l.add(checkData, kafka.StatusFail, "the data directory "+dir+" cannot be made: "+err.Error(), "let this user write "+above+", or give another directory (--data)")
		return
	}
	l.add(checkData, kafka.StatusOK, "the data directory "+dir+" does not exist yet: the first start makes it", "")
}

// writable leaves nothing behind.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".sagalog-doctor-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// locked tells a running engine, at which somebody looks, from something that would be in the way.
func (l *localCheck) locked(err error) {
	var at endpoints
	text, _ := os.ReadFile(filepath.Join(l.member.data, endpointsFile)) // without it nobody answers below
	if json.Unmarshal(text, &at) == nil && alive(at.HTTP) {
		l.engine = at.HTTP
		l.add(checkData, kafka.StatusWarn, fmt.Sprintf("node %s runs in the data directory %s, with its API at %s", at.Node, l.member.data, at.HTTP),
			"give another directory to start a second process (--data)")
		return
	}
	l.add(checkData, kafka.StatusFail, err.Error(), "stop that process, or give another directory (--data)")
}

// aliveWait is for an engine of this machine.
const aliveWait = 2 * time.Second

func alive(api string) bool {
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

// fits tells whether the state was folded from this namespace. A damaged store fits: the start folds it anew.
func fits(dir, namespace string) error {
	state := filepath.Join(dir, "state")
	if _, err := os.Stat(state); err != nil || namespace == "" {
		return nil
	}
	store, err := projector.Open(state, projector.Options{Namespace: namespace})
	if errors.Is(err, projector.ErrNamespace) {
		return err
	}
	if err != nil {
		return nil
	}
	return store.Close()
}

// address looks whether the API could listen.
func (l *localCheck) address() {
	if !l.roles.node.API {
		return
	}
	if exposed(l.http) {
		l.add(checkHTTP, kafka.StatusWarn, exposedText+" ("+l.http+")", exposedRemedy)
	}
	listener, err := net.Listen("tcp", l.http)
	switch {
	case err == nil:
		_ = listener.Close() // nobody was told of it
		l.add(checkHTTP, kafka.StatusOK, l.http+" is free", "")
	case l.engine == "http://"+l.http:
		l.add(checkHTTP, kafka.StatusOK, l.http+" is where that node serves its API", "")
	default:
		l.add(checkHTTP, kafka.StatusFail, fmt.Sprintf("the API cannot listen on %s: %s", l.http, err), "stop what listens there, or give another address (--http; port 0 takes a free one)")
	}
}
