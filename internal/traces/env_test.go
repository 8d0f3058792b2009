package traces

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clearVariables removes the variables of the machine that runs the test.
func clearVariables(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

func TestTheVariablesSayWhetherTracesAreWanted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	const to = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for name, c := range map[string]struct {
		env    []string
		wanted bool
		err    string
	}{
		"nothing":               {nil, false, ""},
		"only a name":           {[]string{"OTEL_SERVICE_NAME=a", "OTEL_TRACES_SAMPLER=always_on"}, false, ""},
		"an endpoint":           {[]string{to}, true, ""},
		"one for traces":        {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://a:1/v1/traces"}, true, ""},
		"the default one":       {[]string{"OTEL_TRACES_EXPORTER=otlp"}, true, ""},
		"none":                  {[]string{to, "OTEL_TRACES_EXPORTER=none"}, false, ""},
		"disabled":              {[]string{to, "OTEL_SDK_DISABLED=TRUE", "OTEL_EXPORTER_OTLP_PROTOCOL=x"}, false, ""},
		"another exporter":      {[]string{to, "OTEL_TRACES_EXPORTER=zipkin"}, false, "OTEL_TRACES_EXPORTER=zipkin is not supported: set it to otlp or to none"},
		"gRPC":                  {[]string{to, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, true, ""},
		"a protocol for traces": {[]string{to, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json"}, true, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json is not supported"},
		"no scheme":             {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318"}, true, "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL: set it to one such as"},
		"a password":            {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:s3cr3t@:x"}, true, "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		"headers":               {[]string{to, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20s3cr3t, x-tenant=a,"}, true, ""},
		"a header with a colon": {[]string{to, "OTEL_EXPORTER_OTLP_HEADERS=Authorization: Bearer s3cr3t"}, true, "OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE"},
		"a header with a %":     {[]string{to, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=s3cr3t%"}, true, "OTEL_EXPORTER_OTLP_TRACES_HEADERS is not NAME=VALUE"},
		"a header with a space": {[]string{to, "OTEL_EXPORTER_OTLP_HEADERS=Bearer s3cr3t=="}, true, "OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE"},
		"a duration":            {[]string{to, "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, true, "OTEL_EXPORTER_OTLP_TIMEOUT=10s is not a number of milliseconds"},
		"no file":               {[]string{to, "OTEL_EXPORTER_OTLP_CERTIFICATE=/no/such"}, true, "OTEL_EXPORTER_OTLP_CERTIFICATE: open /no/such"},
		"no certificate":        {[]string{to, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=" + file}, true, "holds no certificate in PEM form"},
		"a sampler":             {[]string{to, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.1"}, true, ""},
		"an unknown sampler":    {[]string{to, "OTEL_TRACES_SAMPLER=some"}, true, "OTEL_TRACES_SAMPLER=some is not supported: set it to one of always_on"},
		"a ratio above 1":       {[]string{to, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2"}, true, "OTEL_TRACES_SAMPLER_ARG=2 is not a number from 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			clearVariables(t)
			for _, v := range c.env {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			wanted, err := Check()
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "s3cr3t")
			}
			require.Equal(t, c.wanted, wanted)
		})
	}
}
