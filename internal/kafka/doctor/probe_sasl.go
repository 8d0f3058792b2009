package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authenticate authenticates as the client will. Without SASL it finds out whether the listener requires it.
func (p *probe) authenticate(ctx context.Context, w *conn) *fault {
	if p.cfg.SASL == nil {
		return p.unasked(ctx, w)
	}
	m, err := p.cfg.SASL.Authenticator()
	if err != nil {
		return &fault{security: true, what: err.Error(), remedy: "choose one of " + strings.Join(kafka.Mechanisms(), ", ") + " (--sasl)"}
	}
	known, err := handshake(ctx, w, m.Name())
	if f := p.noMechanism(known, err); f != nil {
		return f
	}
	if err != nil {
		return p.noAnswer(err)
	}
	session, next, err := m.Authenticate(ctx, p.addr)
	for done := false; err == nil && (!done || len(next) > 0); {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = next
		var answer kmsg.Response
		if answer, err = w.ask(ctx, req, askAuthenticate); err != nil {
			return p.noWelcome(err)
		}
		resp := answer.(*kmsg.SASLAuthenticateResponse)
		if err = kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return p.noWelcome(err)
		}
		next = nil
		if !done {
			done, next, err = session.Challenge(resp.SASLAuthBytes)
		}
	}
	if err != nil {
		return p.noWelcome(err)
	}
	return nil
}

// handshake proposes a mechanism. A broker that does not support it answers with the ones that it supports.
func handshake(ctx context.Context, w *conn, mechanism string) (known []string, err error) {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	answer, err := w.ask(ctx, req, askHandshake)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.SASLHandshakeResponse)
	return resp.SupportedMechanisms, kerr.ErrorForCode(resp.ErrorCode)
}

func (p *probe) noMechanism(known []string, err error) *fault {
	switch err {
	case kerr.UnsupportedSaslMechanism:
		return &fault{security: true, what: fmt.Sprintf("the listener does not support the mechanism %s; it supports %s", p.cfg.SASL.Mechanism, strings.Join(known, ", ")),
			remedy: "choose one that both support (--sasl), or add ours to sasl.enabled.mechanisms of the broker"}
	case kerr.IllegalSaslState:
		return &fault{security: true, what: "the listener does not use SASL, but we do",
			remedy: "leave out --sasl and the --sasl-... flags, or give the port of the listener with SASL (--brokers)"}
	}
	return nil
}

// noWelcome explains a failed authentication. Some brokers answer with an error, others close the connection.
func (p *probe) noWelcome(err error) *fault {
	if timedOut(err) {
		return p.noAnswer(err)
	}
	s := p.cfg.SASL
	remedy := "correct --sasl-user and the password (SAGALOG_SASL_PASSWORD or --sasl-password-file)"
	if strings.HasPrefix(s.Mechanism, "SCRAM") {
		remedy += fmt.Sprintf("; to create a user: %s --alter --entity-type users --entity-name %s --add-config '%s=[password=...]'",
			p.cfg.Script("kafka-configs.sh"), s.User, s.Mechanism)
	}
	return &fault{security: true, remedy: remedy, what: fmt.Sprintf("it does not accept the user %s with the given password by %s", s.User, s.Mechanism),
		passing: hungUp(err)} // a broker that is stopping closes connections too
}

// unasked finds out whether a listener requires SASL. Such a listener closes the connection at the first request.
func (p *probe) unasked(ctx context.Context, w *conn) *fault {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	_, err := w.ask(ctx, req, askMetadata)
	if err == nil {
		return nil
	}
	if !hungUp(err) {
		return p.noAnswer(err)
	}
	again, _, f := p.connect(ctx)
	if f != nil {
		return f
	}
	defer again.close()
	// No mechanism has this name, so the response lists the supported ones.
	known, err := handshake(ctx, again, "NONE")
	if err != kerr.UnsupportedSaslMechanism {
		return p.noAnswer(io.EOF)
	}
	return &fault{security: true, what: "the listener requires authentication (SASL: " + strings.Join(known, ", ") + "), but we do not authenticate",
		remedy: "add --sasl MECHANISM, --sasl-user and the password (SAGALOG_SASL_PASSWORD or --sasl-password-file)"}
}
