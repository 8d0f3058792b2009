package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

// address checks whether the API can listen. live are the nodes that are alive. Where a node of this namespace listens, nothing is to be stopped.
func (l *localCheck) address(ctx context.Context, live []events.Presence) {
	if !l.roles.node.API {
		return
	}
	listener, err := net.Listen("tcp", l.http)
	if err == nil {
		_ = listener.Close() // nobody can have connected to it yet
		l.add(checkHTTP, doctor.StatusOK, l.http+" is free", "")
		return
	}
	here := l.httpTLS.scheme() + l.http
	if l.engine == here {
		l.add(checkHTTP, doctor.StatusOK, l.http+" is where that node serves its API", "")
		return
	}
	if l.starting || !l.neighbour(ctx, here, live) {
		l.add(checkHTTP, doctor.StatusFail, fmt.Sprintf("the API cannot listen on %s: %s", l.http, err), "stop what listens there, unless it is a node, or give another address (--http; port 0 takes a free one)")
	}
}

// neighbour reports a node of this namespace that listens at the address, or may be listening. It returns false if what listens there is something else.
func (l *localCheck) neighbour(ctx context.Context, here string, live []events.Presence) bool {
	node, namespaceID, err := identity(ctx, here)
	switch announced := nodeAt(live, l.http); {
	case err == nil && l.made > 0 && namespaceID == l.namespaceID:
		l.add(checkHTTP, doctor.StatusOK, fmt.Sprintf("%s is where node %s serves its API: use its flags to check that node, or another --http to check a new one", l.http, node), "")
	case errors.Is(err, errNoIdentity) && announced != "":
		l.add(checkHTTP, doctor.StatusWarn, fmt.Sprintf("what listens on %s says only with a token which node it is; node %s announces this port", l.http, announced),
			"look whether that node runs on this machine. If it does not, stop what listens there, or give another address (--http)")
	default:
		return false
	}
	return true
}

var (
	// nodeInfo is the metric by which a node says which it is.
	nodeInfo = regexp.MustCompile(`^sagalog_node_info\{namespace_id="([^"]+)",node="([^"]+)"[,}]`)
	// errNoIdentity is returned if the listener asks for a token.
	errNoIdentity = errors.New("it says only with a token which node it is")
)

// maxMetrics bounds what is read of the metrics of a listener that may be anything.
const maxMetrics = 16 << 20

// identity returns the name of the node that serves the API at a URL, and the ID of its namespace, by its metrics.
func identity(ctx context.Context, api string) (node, namespaceID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, aliveWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/metrics", nil)
	if err != nil {
		return "", "", err
	}
	// Nothing secret is sent, and the certificate need not name the address at which the node listens.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return "", "", errNoIdentity
	default:
		return "", "", fmt.Errorf("GET %s/metrics: %s", api, res.Status)
	}
	for lines := bufio.NewScanner(io.LimitReader(res.Body, maxMetrics)); lines.Scan(); {
		if m := nodeInfo.FindStringSubmatch(lines.Text()); m != nil {
			return m[2], m[1], nil
		}
	}
	return "", "", fmt.Errorf("GET %s/metrics names no node", api)
}

// nodeAt returns the name of the live node with the API at an address. Nodes may announce another host than the one that they listen on, so the
// port decides; "" means that none has it.
func nodeAt(live []events.Presence, addr string) (name string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	for i := range live {
		announced := live[i].HTTP[strings.LastIndex(live[i].HTTP, "/")+1:]
		_, theirs, err := net.SplitHostPort(announced)
		switch {
		case err != nil || theirs != port:
		case announced == addr:
			return live[i].Instance
		case name == "":
			name = live[i].Instance
		default:
			name += " or " + live[i].Instance
		}
	}
	return name
}
