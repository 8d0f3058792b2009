package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/spf13/pflag"
)

// accessFlags say who may call the HTTP API. Without any of them access is off, which is possible only where no other machine can reach it.
type accessFlags struct {
	tokens, nodeKey, nodeKeyFile                           string
	oidcIssuer, oidcAudience, oidcRoleClaim, oidcNameClaim string
	oidcRoles                                              []string

	roleOf map[string]access.Role
}

func (a *accessFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&a.tokens, "tokens", "", "file of the tokens by which callers of the HTTP API are known, which sagalog token init makes; it is read again when it changes. "+
		"Without it and --oidc-issuer access is off, and the API listens on loopback only")
	f.StringVar(&a.nodeKey, "node-key", "", "the secret by which nodes sign requests that they pass on; everyone on the machine can see flags in ps, so use the variable or --node-key-file")
	f.StringVar(&a.nodeKeyFile, "node-key-file", "", "file with the secret by which nodes sign the requests that they pass to each other while access is on: the same on all of them; "+
		"nodes sign with the first line, and accept a second one too, so that the secret can be replaced. The file is read again when it changes")
	f.StringVar(&a.oidcIssuer, "oidc-issuer", "", "URL of an identity provider (OpenID Connect) whose tokens (JWT) are valid too")
	f.StringVar(&a.oidcAudience, "oidc-audience", "", "what its tokens must be for (the claim aud)")
	f.StringVar(&a.oidcRoleClaim, "oidc-role-claim", "groups", "the claim with the groups of the caller; with dots, a member of a claim")
	f.StringVar(&a.oidcNameClaim, "oidc-name-claim", "sub", "the claim with the name that stands in facts; choose one that its holder cannot change")
	f.StringSliceVar(&a.oidcRoles, "oidc-role", nil, "GROUP=ROLE: what the members of a group may do, viewer, submitter, operator or admin; repeatable")
}

// on says whether callers have to be known.
func (a *accessFlags) on() bool { return a.tokens != "" || a.oidcIssuer != "" }

func (a *accessFlags) validate() error {
	if a.nodeKey != "" && a.nodeKeyFile != "" {
		return usage("--node-key and --node-key-file are both given: leave one out")
	}
	if a.oidcIssuer == "" {
		if a.oidcAudience != "" || len(a.oidcRoles) > 0 {
			return usage("--oidc-issuer is missing: the URL of the identity provider")
		}
		return nil
	}
	switch u, err := url.Parse(a.oidcIssuer); {
	case err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return usage("--oidc-issuer %q is not a URL with https, such as https://login.example/realms/main", a.oidcIssuer)
	case a.oidcAudience == "":
		return usage("--oidc-audience is missing: without it, tokens for other programs would be valid here")
	case len(a.oidcRoles) == 0:
		return usage("--oidc-role is missing: without a role, no token of the identity provider is worth anything; such as --oidc-role engineers=operator")
	}
	a.roleOf = map[string]access.Role{}
	for _, text := range a.oidcRoles {
		group, role, err := access.ParseRoleOf(text)
		if err != nil {
			return usage("--oidc-role: %v", err)
		}
		a.roleOf[group] = role
	}
	return nil
}

// gate reads the files of the flags. It returns nil if access is off.
func (a *accessFlags) gate(namespace string, log *slog.Logger) (*access.Gate, error) {
	if !a.on() {
		return nil, nil
	}
	g := &access.Gate{}
	var err error
	if a.nodeKeyFile != "" {
		if g.Peers, err = access.OpenPeers(namespace, a.nodeKeyFile, log); err != nil {
			return nil, fmt.Errorf("--node-key-file: %w", err)
		}
	} else if g.Peers, err = access.NewPeers(namespace, a.nodeKey); err != nil {
		return nil, fmt.Errorf("--node-key: %w", err)
	}
	if a.tokens != "" {
		if g.Tokens, err = access.OpenTokens(a.tokens, log); err != nil {
			return nil, fmt.Errorf("--tokens: %w", err)
		}
	}
	if a.oidcIssuer != "" {
		g.OIDC = access.NewOIDC(access.OIDCConfig{
			Issuer: a.oidcIssuer, Audience: a.oidcAudience, RoleClaim: a.oidcRoleClaim, NameClaim: a.oidcNameClaim, Roles: a.roleOf, Logger: log,
		})
	}
	return g, nil
}

// httpTLS holds the flags of the TLS of the HTTP API. The --tls-... flags are about the brokers.
type httpTLS struct{ cert, key, ca string }

func (t *httpTLS) flags(f *pflag.FlagSet) {
	f.StringVar(&t.cert, "http-tls-cert", "", "file of the certificate (PEM) of the HTTP API, with those of its issuers: the API speaks https, and so do all other nodes. It is read again when it changes")
	f.StringVar(&t.key, "http-tls-key", "", "file of the key of --http-tls-cert (PEM)")
	f.StringVar(&t.ca, "http-tls-ca", "", "file of the CA certificates (PEM) that sign the certificates of the nodes (default: the system's). It is read again when it changes")
}

func (t *httpTLS) validate() error {
	if (t.cert == "") != (t.key == "") {
		return usage("--http-tls-cert and --http-tls-key belong together: give the certificate of the API and its key")
	}
	if t.ca != "" && t.cert == "" {
		return usage("--http-tls-ca needs --http-tls-cert: nodes call each other with TLS if their own API has a certificate")
	}
	return nil
}

func (t *httpTLS) scheme() string {
	if t.cert != "" {
		return "https://"
	}
	return "http://"
}

// configs returns the TLS of the API, and that of calls to other nodes; nil without a certificate.
func (t *httpTLS) configs(log *slog.Logger) (api *tls.Config, peers func() *tls.Config, err error) {
	if t.cert == "" {
		return nil, nil, nil
	}
	c, err := access.OpenCertificate(t.cert, t.key, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--http-tls-cert and --http-tls-key: %w", err)
	}
	if peers, err = access.OpenAuthorities(t.ca, log); err != nil {
		return nil, nil, fmt.Errorf("--http-tls-ca: %w", err)
	}
	return c.Config(), peers, nil
}

const (
	openRemedy  = "add --tokens FILE (`sagalog token init DIR` makes one) or --oidc-issuer, or listen on 127.0.0.1"
	clearText   = "tokens of the HTTP API travel in clear text: it has no TLS, and other machines can reach it"
	clearRemedy = "add --http-tls-cert and --http-tls-key, or let only a proxy with TLS reach it"
	aloneText   = "access is on, and this node has no key for requests between nodes: other nodes can pass it none"
	aloneRemedy = "add --node-key-file, the same on all nodes, unless this is the only one"
)
