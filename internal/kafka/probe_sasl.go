package kafka

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authenticate says who we are, as the client will. Without SASL it finds out whether the listener asks.
func (p *probe) authenticate(ctx context.Context, w *wire) *fault {
	if p.cfg.SASL == nil {
		return p.unasked(ctx, w)
	}
	m, err := mechanism(p.cfg.SASL)
	if err != nil {
		return &fault{security: true, what: err.Error(), remedy: "give one of " + strings.Join(Mechanisms(), ", ") + " (--sasl)"}
	}
	known, err := handshake(ctx, w, m.Name())
	if f := p.noMechanism(known, err); f != nil {
		return f
	}
	if err != nil {
		return p.noAnswer(ctx, err)
	}
	session, next, err := m.Authenticate(ctx, p.addr)
	for done := false; err == nil && (!done || len(next) > 0); {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = next
		var answer kmsg.Response
		if answer, err = w.ask(ctx, req, askAuthenticate); err != nil {
			return p.noWelcome(ctx, err)
		}
		resp := answer.(*kmsg.SASLAuthenticateResponse)
		if err = kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return p.noWelcome(ctx, err)
		}
		next = nil
		if !done {
			done, next, err = session.Challenge(resp.SASLAuthBytes)
		}
	}
	if err != nil {
		return p.noWelcome(ctx, err)
	}
	return nil
}

// handshake names a mechanism; where the broker does not know it, it says which it knows.
func handshake(ctx context.Context, w *wire, mechanism string) (known []string, err error) {
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
		return &fault{security: true, what: fmt.Sprintf("the listener does not know the mechanism %s; it knows %s", p.cfg.SASL.Mechanism, strings.Join(known, ", ")),
			remedy: "give one that both know (--sasl), or add ours to sasl.enabled.mechanisms of the broker"}
	case kerr.IllegalSaslState:
		return &fault{security: true, what: "the listener asks nobody who he is, and we authenticate",
			remedy: "leave out --sasl and the --sasl-... flags, or give the port of the listener with SASL (--brokers)"}
	}
	return nil
}

// noWelcome explains an authentication that failed. Some brokers answer, others hang up.
func (p *probe) noWelcome(ctx context.Context, err error) *fault {
	if timedOut(err) {
		return p.noAnswer(ctx, err)
	}
	s := p.cfg.SASL
	remedy := "correct --sasl-user and the password (SAGALOG_SASL_PASSWORD or --sasl-password-file)"
	if strings.HasPrefix(s.Mechanism, "SCRAM") {
		remedy += fmt.Sprintf("; a user is made by: %s --alter --entity-type users --entity-name %s --add-config '%s=[password=...]'",
			p.cfg.bootstrap("kafka-configs.sh"), s.User, s.Mechanism)
	}
	return &fault{security: true, remedy: remedy, what: fmt.Sprintf("it does not accept the user %s with the given password by %s", s.User, s.Mechanism),
		passing: hungUp(err)} // a broker that is stopping hangs up too
}

// unasked finds out that a listener wants to know who we are. Such a one hangs up at the first real question.
func (p *probe) unasked(ctx context.Context, w *wire) *fault {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	_, err := w.ask(ctx, req, askMetadata)
	if err == nil {
		return nil
	}
	if !hungUp(err) {
		return p.noAnswer(ctx, err)
	}
	again, _, f := p.connect(ctx)
	if f != nil {
		return f
	}
	defer again.close()
	// No mechanism has this name, so the answer lists those that there are.
	known, err := handshake(ctx, again, "NONE")
	if err != kerr.UnsupportedSaslMechanism {
		return p.noAnswer(ctx, io.EOF)
	}
	return &fault{security: true, what: "the listener asks who we are (SASL: " + strings.Join(known, ", ") + "), and we do not say",
		remedy: "add --sasl MECHANISM, --sasl-user and the password (SAGALOG_SASL_PASSWORD or --sasl-password-file)"}
}
