package cli_test

import (
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Of two flags that exclude each other, the one on the command line counts, whatever the variable of the other says.
func TestAnAlternativeOnTheCommandLineWins(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SAGALOG_BROKERS": "k1:9092", "SAGALOG_DATA": "./d", "SAGALOG_USER": "ada"}
	for args, want := range map[string]string{"": "k1:9092 ./d ada", "--data=x": " x ada", "--brokers=y": "y  ada", "--brokers=y --data=x": "y x ada"} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range []string{"brokers", "data", "user"} {
			f.String(name, "", "")
		}
		cli.Alternatives(f, "brokers", "data")
		require.NoError(t, f.Parse(strings.Fields(args)))
		require.NoError(t, cli.FlagsFromEnvironment(f, func(name string) (string, bool) { v, ok := env[name]; return v, ok }))
		var got []string
		for _, name := range []string{"brokers", "data", "user"} {
			got = append(got, f.Lookup(name).Value.String())
		}
		require.Equal(t, want, strings.Join(got, " "), args)
	}
}
