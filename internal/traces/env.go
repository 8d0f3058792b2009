package traces

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The variables that say whether and how spans are exported. The library reads them too, but falls back to a default for a value that it cannot
// use.
const (
	envDisabled  = "OTEL_SDK_DISABLED"
	envExporter  = "OTEL_TRACES_EXPORTER"
	envSampler   = "OTEL_TRACES_SAMPLER"
	envArgument  = "OTEL_TRACES_SAMPLER_ARG"
	envBase      = "OTEL_EXPORTER_OTLP_"
	envTraces    = envBase + "TRACES_"
	endpoint     = "ENDPOINT"
	protocol     = "PROTOCOL"
	timeout      = "TIMEOUT"
	certificate  = "CERTIFICATE"
	headers      = "HEADERS"
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// Variables describes the variables in the help of a command.
const Variables = `Traces (OpenTelemetry) are exported by OTLP if OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
OTEL_TRACES_EXPORTER=otlp is set, unless OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true is set. These variables apply too:
OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf or grpc), OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE,
OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.`

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

// given returns the value of a variable for traces, or else of the one for all signals, and its name.
func given(suffix string) (name, value string) {
	if value = variable(envTraces + suffix); value != "" {
		return envTraces + suffix, value
	}
	return envBase + suffix, variable(envBase + suffix)
}

func variable(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// Check says whether the variables ask for traces, and what is wrong with them.
func Check() (wanted bool, err error) {
	if strings.EqualFold(variable(envDisabled), "true") {
		return false, nil
	}
	_, to := given(endpoint)
	switch exporter := variable(envExporter); exporter {
	case "none":
		return false, nil
	case "otlp":
		wanted = true
	case "":
		wanted = to != ""
	default:
		return false, fmt.Errorf("%s=%s is not supported: set it to otlp or to none", envExporter, exporter)
	}
	if !wanted {
		return false, nil
	}
	return true, errors.Join(checkEndpoint(), checkProtocol(), checkTimeout(), checkHeaders(), checkCertificate(), checkSampler())
}

func checkEndpoint() error {
	name, value := given(endpoint)
	if value == "" {
		return nil
	}
	u, err := url.Parse(value) // its error would show a password in the URL
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s is not a URL: set it to one such as http://127.0.0.1:4318", name)
	}
	return nil
}

func checkProtocol() error {
	switch name, value := given(protocol); value {
	case "", protocolHTTP, protocolGRPC:
		return nil
	default:
		return fmt.Errorf("%s=%s is not supported: set it to %s or to %s", name, value, protocolHTTP, protocolGRPC)
	}
}

func checkTimeout() error {
	name, value := given(timeout)
	if n, err := strconv.Atoi(cmp.Or(value, "0")); err != nil || n < 0 {
		return fmt.Errorf("%s=%s is not a number of milliseconds, such as 10000", name, value)
	}
	return nil
}

// checkHeaders finds what the library would print as it is, with the token that it may hold, and leave out. Both variables are checked, since the
// library reads both.
func checkHeaders() error {
	for _, name := range []string{envTraces + headers, envBase + headers} {
		for header := range strings.SplitSeq(variable(name), ",") {
			key, coded, found := strings.Cut(header, "=")
			_, err := url.PathUnescape(coded)
			if header != "" && (!found || err != nil || !token.MatchString(strings.TrimSpace(key))) {
				return fmt.Errorf("%s is not NAME=VALUE, with commas between several, and with what is not a letter or a digit of a value as %% and two hexadecimal digits", name)
			}
		}
	}
	return nil
}

// token matches the name of a header.
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func checkCertificate() error {
	name, file := given(certificate)
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", name, file)
	}
	return nil
}

func checkSampler() error {
	sampler, argument := strings.ToLower(variable(envSampler)), variable(envArgument)
	if sampler != "" && !slices.Contains(samplers, sampler) {
		return fmt.Errorf("%s=%s is not supported: set it to one of %s", envSampler, sampler, strings.Join(samplers, ", "))
	}
	if !strings.HasSuffix(sampler, "traceidratio") || argument == "" {
		return nil
	}
	if ratio, err := strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		return fmt.Errorf("%s=%s is not a number from 0 to 1, such as 0.1", envArgument, argument)
	}
	return nil
}
