package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TokenVariable holds the token of the API. No flag does: everyone on the machine can see flags.
const TokenVariable = "SAGALOG_TOKEN"

// apiFlags adds the flags that say how to reach the API.
func apiFlags(f *pflag.FlagSet) {
	f.String("api", DefaultAPI, "the engine's HTTP API")
	f.String("api-ca", "", "file of the CA certificates (PEM) that sign the certificate of an --api with https (default: the system's)")
	TokenFlag(f)
}

// TokenFlag adds the flag that names the file of the token.
func TokenFlag(f *pflag.FlagSet) {
	f.String("token-file", "", "file that holds the token of the API and nothing else (default: the token in $"+TokenVariable+")")
}

// tokenOf is the key of a token that a command gives itself.
type tokenOf struct{}

func withToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenOf{}, token)
}

// Token returns the token of the API, "" without one.
func Token(f *pflag.FlagSet) (string, error) {
	name, err := f.GetString("token-file")
	if err != nil || name == "" {
		return strings.TrimSpace(os.Getenv(TokenVariable)), err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || strings.ContainsAny(text, " \r\n\t") {
		return "", fmt.Errorf("--token-file: %s does not hold one token and nothing else", name)
	}
	return text, nil
}

// callerOf returns what calls the API by the flags of a command.
func callerOf(cmd *cobra.Command) (*caller, error) {
	base, err := cmd.Flags().GetString("api")
	if err != nil {
		return nil, err
	}
	c, err := newCaller(base)
	if err != nil {
		return nil, err
	}
	if given, ok := cmd.Context().Value(tokenOf{}).(string); ok {
		c.token = given
	} else if c.token, err = Token(cmd.Flags()); err != nil {
		return nil, err
	}
	ca, err := cmd.Flags().GetString("api-ca")
	if err != nil || ca == "" {
		return c, err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("--api-ca: %w", err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--api-ca: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", ca)
	}
	c.http.Transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted},
	}
	return c, nil
}
