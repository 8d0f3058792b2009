package main

import (
	"log/slog"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

const checkAccess = "access"

// files reads the files that say who may call the API.
func (l *localCheck) files() {
	if !l.roles.node.API {
		return
	}
	quiet := slog.New(slog.DiscardHandler)
	gate, err := l.gate(l.namespace, quiet)
	if err == nil {
		_, _, err = l.httpTLS.configs(quiet)
	}
	if err != nil {
		l.findings = append(l.findings, accessFault(err))
		return
	}
	l.access(gate)
	if gate != nil {
		l.add(checkAccess, doctor.StatusOK, "the files of access can be used", "")
	}
}

// accessFault is a file of access that cannot be used.
func accessFault(err error) doctor.Finding {
	return doctor.Finding{Check: checkAccess, Status: doctor.StatusFail, What: err.Error(),
		Remedy: "correct the file; `sagalog token init DIR` makes new tokens and keys of nodes"}
}

// access warns of what works but is not safe, or of an identity provider that does not answer.
func (l *localCheck) access(gate *access.Gate) {
	if gate == nil || !l.roles.node.API {
		return
	}
	if exposed(l.http) && l.httpTLS.cert == "" {
		l.add(checkAccess, doctor.StatusWarn, clearText+" ("+l.http+")", clearRemedy)
	}
	if l.nodeKey == "" && l.nodeKeyFile == "" {
		l.add(checkAccess, doctor.StatusWarn, aloneText, aloneRemedy)
	}
	if gate.OIDC == nil {
		return
	}
	if err := gate.OIDC.Reach(); err != nil {
		l.add(checkAccess, doctor.StatusWarn, err.Error(), "correct --oidc-issuer, or start the identity provider: until it answers, its tokens are refused")
	}
}
